/** Tables of clients that take a file and throw it away: Sluice beside base64 and what servers do today. */
import { GiB, KiB, MiB, type Bench } from "../lib/bench.ts";
import { isInstalled } from "../lib/load.ts";
import { nginx, pump, startPeer } from "../lib/peers.ts";
import {
  builtProgram,
  observeClient,
  runToEnd,
  startNodeServer,
  startOutsideServer,
  type Observed,
  type ServerProcess,
} from "../lib/processes.ts";
import { freePort } from "../lib/program.ts";
import { endpointOf, startSluiceServer, uriOf } from "../lib/sluice.ts";
import type { Sample } from "../lib/statistics.ts";
import {
  beside,
  each,
  faster,
  takeTurns,
  type MeasuredSubject,
  type Promised,
  type Subject,
  type TableSpec,
  type Trace,
} from "../lib/table.ts";

/** Runs a client of MCP that must take `bytes`. */
async function take(
  bench: Bench,
  server: ServerProcess,
  bytes: number,
  ...args: readonly string[]
): Promise<Observed> {
  const [way = "", ...rest] = args;
  const seen = await observeClient(bench, "mcp-client", [way, endpointOf(server), ...rest], server);
  if (seen.bytes !== bytes) throw new Error(`bench: ${way}: got ${seen.bytes} of ${bytes} bytes`);
  return seen;
}

const growthOf = ({ client, server }: Observed) => ({
  clientGrowth: client.peakMiB - client.idleMiB,
  serverGrowth: server.peakMiB - server.idleMiB,
});

const modes = ["direct", "redirect", "downloadUrl"] as const;
const passingSizes = (bench: Bench): readonly number[] =>
  bench.quick ? [64 * MiB, GiB] : [64 * MiB, GiB, 8 * GiB];
const sizeName = (bytes: number): string =>
  bytes >= GiB ? `${bytes / GiB} GiB` : `${bytes / MiB} MiB`;

/** Memory of both ends while a file passes, by mode and by size. */
export const memory: TableSpec = {
  id: "memory",
  title: "Memory while a file passes",
  how: "Growth of resident memory over idle (connected, one 4 KiB transfer done), each pair of processes fresh, the file sparse. The redirect leads to another server.",
  columns: [
    {
      key: "client",
      title: "client growth MiB",
      digits: 0,
      bars: true,
      is: each("clientGrowth"),
    },
    {
      key: "server",
      title: "server growth MiB",
      digits: 0,
      bars: true,
      is: each("serverGrowth"),
    },
  ],
  promises: (bench) =>
    modes.flatMap((mode) => {
      const name = `${mode}, ${sizeName(passingSizes(bench).at(-1)!)}`;
      return (["client", "server"] as const).map((end) => ({
        claim: `${name}: ${end} growth in MiB`,
        of: `Sluice, ${name}`,
        is: each(`${end}Growth`),
        atMost: 48,
      }));
    }),
  async measure(bench, running) {
    const sizes = passingSizes(bench);
    const warmUp = uriOf(await bench.file(4 * KiB));
    const elsewhere = running.use((await startPeer(pump, bench))!);
    const storageOrigin = `http://127.0.0.1:${elsewhere.ready.port}`;
    const subjects: MeasuredSubject[] = [];
    const traces: Trace[] = [];
    for (const mode of modes)
      for (const bytes of sizes) {
        await using server = await startSluiceServer(bench, { delivery: mode, storageOrigin });
        const uri = uriOf(await bench.sparseFile(bytes));
        const seen = await take(bench, server, bytes, "sluice", uri, warmUp, storageOrigin);
        const name = `${mode}, ${sizeName(bytes)}`;
        const { clientGrowth, serverGrowth } = growthOf(seen);
        bench.say(
          `  ${name}: client +${clientGrowth.toFixed(0)}, server +${serverGrowth.toFixed(0)} MiB`,
        );
        subjects.push({ name: `Sluice, ${name}`, samples: [{ clientGrowth, serverGrowth }] });
        if (bytes !== sizes.at(-1)) continue;
        for (const end of ["client", "server"] as const)
          traces.push({ name: `${end}, ${name}`, points: seen[end].points });
      }
    return { subjects, traces };
  },
};

const replacedSizes = (bench: Bench): readonly number[] =>
  bench.quick ? [16, 50] : [16, 50, 200, 380];
const beyond = 400;
/** The base64 row beside one of Sluice. */
const replacedBy = (name: string): string => name.replace("Sluice", "base64");

/** `resources/read` with base64 beside `resources/stream`, official client and server both times. */
export const replaceBase64: TableSpec = {
  id: "replace-base64",
  title: "What it replaces: resources/read with base64",
  how: "Client and server of the official SDK, streamable HTTP, page cache warm. CPU is that of both ends, peaks are resident memory.",
  columns: [
    { key: "seconds", title: "seconds", digits: 2, bars: true, is: each("seconds") },
    { key: "cpu", title: "CPU s", digits: 2, is: each("cpuSeconds") },
    { key: "clientPeak", title: "client peak MiB", digits: 0, bars: true, is: each("clientPeak") },
    { key: "serverPeak", title: "server peak MiB", digits: 0, is: each("serverPeak") },
  ],
  promises: (bench) =>
    replacedSizes(bench)
      .filter((size, n, sizes) => size >= 200 || n === sizes.length - 1)
      .flatMap((size): Promised[] => {
        const of = `Sluice ${size} MiB`;
        return [
          { claim: `${size} MiB, times as fast`, of, is: faster(replacedBy), atLeast: 10 },
          {
            claim: `${size} MiB, CPU of both ends`,
            of,
            is: beside(replacedBy, "cpuSeconds"),
            atMost: 1 / 8,
          },
          ...["client", "server"].map((end) => ({
            claim: `${size} MiB, ${end} growth in MiB`,
            of,
            is: each(`${end}Growth`),
            atMost: 16,
          })),
        ];
      }),
  async measure(bench, running) {
    const base64 = running.use(await startNodeServer("sdk-server", ["base64", bench.files], bench));
    const sluice = running.use(await startSluiceServer(bench));
    const warmUp = uriOf(await bench.file(4 * KiB));
    const subjects: MeasuredSubject[] = [];
    for (const size of replacedSizes(bench)) {
      const uri = uriOf(await bench.file(size * MiB));
      const subject = (way: string, name: string, server: ServerProcess): Subject => ({
        name,
        async measure() {
          const seen = await take(bench, server, size * MiB, way, uri, warmUp);
          return {
            seconds: seen.seconds,
            cpuSeconds: seen.cpuSeconds + seen.serverCpuSeconds,
            clientPeak: seen.client.peakMiB,
            serverPeak: seen.server.peakMiB,
            ...growthOf(seen),
          };
        },
      });
      const pair = [
        subject("base64", `base64 ${size} MiB`, base64),
        subject("sluice", `Sluice ${size} MiB`, sluice),
      ];
      subjects.push(...(await takeTurns(bench, pair)));
    }
    if (!bench.quick) {
      const uri = uriOf(await bench.file(beyond * MiB));
      const absent = await take(bench, base64, beyond * MiB, "base64", uri, warmUp)
        .then(() => "worked")
        .catch(() => "fails: longer than a string can be");
      subjects.push({ name: `base64 ${beyond} MiB`, absent });
    }
    return { subjects };
  },
};

const wayNames = {
  sdk: "resources/read, official SDK",
  fastMcp: "resources/read, FastMCP",
  link: "a tool with a signed link, nginx, unverified",
  direct: "Sluice, direct answer",
  url: "Sluice, download URL",
};

/** What servers do today to give a file to a client, from the call to the last byte. */
export const ways: TableSpec = {
  id: "ways",
  title: "Ways to give a client one file",
  how: (bench) =>
    `${bench.quick ? 8 : 32} MiB from a folder to a client that throws it away; the clock begins at the call, in a client that is connected and has got 4 KiB. The link of the tool carries a time and an HMAC that nginx does not check. CPU is that of client and MCP server.`,
  columns: [
    { key: "faster", title: "× the SDK", digits: 1, bars: true, is: faster(wayNames.sdk) },
    { key: "seconds", title: "seconds", digits: 3, is: each("seconds") },
    { key: "cpu", title: "CPU s", digits: 3, is: each("cpu") },
  ],
  promises: [
    {
      claim: "times as fast as FastMCP",
      of: wayNames.direct,
      is: faster(wayNames.fastMcp),
      atLeast: 10,
    },
    {
      claim: "direct answer of a signed link",
      of: wayNames.direct,
      is: faster(wayNames.link),
      atLeast: 1,
    },
    {
      claim: "download URL of a signed link",
      of: wayNames.url,
      is: faster(wayNames.link),
      atLeast: 1,
    },
  ],
  async measure(bench, running) {
    const bytes = (bench.quick ? 8 : 32) * MiB;
    const file = await bench.file(bytes);
    const warmUp = await bench.file(4 * KiB);
    const sdkServer = (...args: readonly string[]): Promise<ServerProcess> =>
      startNodeServer("sdk-server", args, bench);
    const official = running.use(await sdkServer("base64", bench.files));
    const direct = running.use(await startSluiceServer(bench));
    const linked = running.use(await startSluiceServer(bench, { delivery: "downloadUrl" }));
    const files = await startPeer(nginx, bench);
    if (files) running.use(files);
    const origin = `http://127.0.0.1:${files?.ready.port}`;
    const links = running.use(await sdkServer("links", origin, "secret"));
    const fastMcp = await startFastMcp(bench);
    if (fastMcp) running.use(fastMcp);
    const subject = (
      name: string,
      server: ServerProcess | undefined,
      way: string,
      asked: readonly string[] = [uriOf(file), uriOf(warmUp)],
    ): Subject => ({
      name,
      absent: server ? undefined : "not installed",
      async measure() {
        const work = await take(bench, server!, bytes, way, ...asked);
        return { seconds: work.seconds, cpu: work.cpuSeconds + work.serverCpuSeconds };
      },
    });
    return {
      subjects: await takeTurns(bench, [
        subject(wayNames.sdk, official, "base64"),
        subject(wayNames.fastMcp, fastMcp, "base64"),
        subject(wayNames.link, files && links, "link", [file, warmUp]),
        subject(wayNames.direct, direct, "sluice"),
        subject(wayNames.url, linked, "sluice"),
      ]),
    };
  },
};

/** FastMCP over the files of the bench; `undefined` where no Python has it. */
async function startFastMcp(bench: Bench): Promise<ServerProcess | undefined> {
  if (!(await isInstalled("fastmcp"))) return undefined;
  const port = await freePort();
  const program = new URL("../programs/fastmcp_server.py", import.meta.url).pathname;
  const how = ["--transport", "http", "--port", `${port}`, "--log-level", "ERROR", "--no-banner"];
  const args = ["run", program, ...how, "--skip-env", "--", bench.files];
  const server = await startOutsideServer("fastmcp", args, { port, signal: bench.signal });
  return { ...server, ready: { port, endpoint: `http://127.0.0.1:${port}/mcp` } };
}

const binarySizes = [1, 16, 100];
const rawPipe = "raw pipe, 1 GiB";
const longStream = "stdio, stream, 1 GiB";
/** The base64 row of the same size and transport. */
function base64Of(name: string): string {
  const [transport = "", ...rest] = name.split(", ");
  const size = rest.at(-1)!;
  const what = transport === "HTTP" ? "base64, official SDK" : "base64";
  return size === "1 GiB" ? "" : `${transport}, ${what}, ${size}`;
}

/** The Binary Transfer RFC beside base64 `resources/read`, and beside a raw pipe. */
export const binary: TableSpec = {
  id: "binary",
  title: "Binary transfer beside base64",
  how: "Two processes. Over HTTP base64 is server and client of the official SDK, over WebSocket both are over the transport of Sluice. Over stdio: two pipes. base64 is `resources/read` of the official SDK over the transport of Sluice and over its own; a raw pipe is one program that writes the file with two buffers and one that counts bytes. Page cache warm.",
  columns: [
    { key: "seconds", title: "seconds", digits: 3, is: each("seconds") },
    { key: "faster", title: "× base64", digits: 1, bars: true, is: faster(base64Of) },
    { key: "ofPipe", title: "× raw pipe", digits: 2, is: faster(rawPipe) },
    { key: "slowest", title: "slowest call ms", digits: 1, is: each("slowestCallMs") },
  ],
  promises: [
    {
      claim: "stdio, stream: throughput of a raw pipe",
      of: longStream,
      is: faster(rawPipe),
      atLeast: 0.8,
    },
    {
      claim: "stdio, stream: slowest call in the middle, ms",
      of: longStream,
      is: each("slowestCallMs"),
      atMost: 20,
    },
  ],
  async measure(bench, running) {
    const start = async (name: string, ...args: readonly string[]): Promise<ServerProcess> =>
      running.use(await startNodeServer(name, [...args, bench.files], bench));
    const subjects: MeasuredSubject[] = [];
    for (const size of binarySizes) {
      const name = (what: string): string => `stdio, ${what}, ${size} MiB`;
      const turns = [
        await overStdio(bench, "base64", size * MiB, name("base64")),
        await overStdio(bench, "binary", size * MiB, name("stream")),
      ];
      // it copies all that came before with each piece that comes: 100 MiB take minutes
      if (size <= 16) {
        const what = name("base64, transport of the SDK");
        turns.unshift(await overStdio(bench, "official", size * MiB, what));
      }
      subjects.push(...(await takeTurns(bench, turns)));
    }
    const official = await start("sdk-server", "base64");
    const sluice = await start("binary-server");
    const warmUp = uriOf(await bench.file(64 * KiB));
    for (const size of binarySizes) {
      const uri = uriOf(await bench.file(size * MiB));
      const subject = (what: string, server: ServerProcess, way: string): Subject => ({
        name: `${what}, ${size} MiB`,
        async measure() {
          const { seconds } = await take(bench, server, size * MiB, way, uri, warmUp);
          return { seconds };
        },
      });
      const turns = [
        subject("HTTP, base64, official SDK", official, "base64"),
        subject("HTTP, multipart", sluice, "multipart"),
        subject("WebSocket, base64", sluice, "socket-base64"),
        subject("WebSocket, frames", sluice, "frames"),
      ];
      subjects.push(...(await takeTurns(bench, turns)));
    }
    const bytes = bench.quick ? 256 * MiB : GiB;
    const pair = [
      await overStdio(bench, "raw", bytes, rawPipe),
      await overStdio(bench, "binary", bytes, longStream),
    ];
    subjects.push(...(await takeTurns(bench, pair)));
    return { subjects };
  },
};

async function overStdio(
  bench: Bench,
  mode: "binary" | "base64" | "official" | "raw",
  bytes: number,
  name: string,
): Promise<Subject> {
  const isLong = bytes > 100 * MiB;
  const file = isLong ? await bench.sparseFile(bytes) : await bench.file(bytes);
  const server = [builtProgram("stdio-server"), bench.files, file, await bench.file(64 * KiB)];
  return {
    name,
    async measure(): Promise<Sample> {
      const args = [builtProgram("stdio-client"), mode, ...server];
      const { stdout } = await runToEnd(process.execPath, args, bench);
      const seen = JSON.parse(stdout) as { bytes: number; seconds: number; slowestCallMs: number };
      if (seen.bytes !== bytes) throw new Error(`bench: ${name}: got ${seen.bytes} bytes`);
      const { seconds, slowestCallMs } = seen;
      return { seconds, ...(isLong && mode === "binary" && { slowestCallMs }) };
    },
  };
}
