/** Tables of servers that receive files. */
import { join } from "node:path";
import { GiB, MiB, type Bench } from "../lib/bench.ts";
import {
  observeClient,
  runToEnd,
  startNodeServer,
  startSourceServer,
  type ServerProcess,
} from "../lib/processes.ts";
import { behind, originOf, type Service } from "../lib/service.ts";
import {
  each,
  faster,
  takeTurns,
  type Subject,
  type TableSpec,
  type Running,
} from "../lib/table.ts";

const textOf = async (url: string): Promise<string> => (await fetch(url)).text();
const originOfServer = ({ ready }: ServerProcess): string => `http://127.0.0.1:${ready.port}`;

const pipeline = "pipeline(req, createWriteStream)";
const unparsed =
  "The least program is the bare pipeline, which reads no form, hashes nothing and does not flush.";

interface Way {
  readonly name: string;
  /** Path at `upload-server`. */
  readonly path: string;
  readonly isForm?: true;
}

const ways: readonly Way[] = [
  { name: pipeline, path: "pipeline" },
  { name: "pipeline and fsync", path: "pipeline-fsync" },
  { name: "Sluice, raw", path: "slot" },
  { name: "Sluice, form", path: "slot", isForm: true },
  { name: "busboy", path: "busboy", isForm: true },
  { name: "busboy, SHA-256 and fsync", path: "busboy-sha256", isForm: true },
  { name: "@fastify/busboy", path: "fastify-busboy", isForm: true },
  { name: "multer", path: "multer", isForm: true },
];

/** Receiving one file to disk, raw and as a form, beside what servers use for it. */
export const upload: TableSpec = {
  id: "upload",
  title: "Receiving a 1 GiB upload to disk",
  how: "curl sends to one Node process per table, each way in turn, on one disk; the file sent is in the page cache. Sluice counts, hashes, looks at the type and flushes to disk before it answers; of the others only the two lines with fsync flush, and one hashes.",
  columns: [
    { key: "seconds", title: "seconds", digits: 3, is: each("seconds") },
    { key: "cpu", title: "CPU s of the server", digits: 2, is: each("cpu") },
    { key: "ofPipeline", title: "× pipeline", digits: 2, bars: true, is: faster(pipeline) },
    { key: "memory", title: "MiB over idle", digits: 0, is: each("memory") },
  ],
  promises: [
    { claim: `raw, beside ${pipeline}`, of: "Sluice, raw", is: faster(pipeline), atLeast: 1 },
    { claim: `form, beside ${pipeline}`, of: "Sluice, form", is: faster(pipeline), atLeast: 0.85 },
    ...["busboy", "multer"].map((name) => ({
      claim: `form, beside ${name} to disk`,
      of: "Sluice, form",
      is: faster(name),
      atLeast: 1.1,
      floor: { of: pipeline, profile: unparsed },
    })),
    {
      claim: "raw, MiB of memory over idle",
      of: "Sluice, raw",
      is: each("memory"),
      atMost: 48,
    },
  ],
  async measure(bench, running) {
    const file = join(bench.files, await bench.file(bench.quick ? 256 * MiB : GiB));
    const args = [JSON.stringify({ root: await bench.scratch("received") })];
    const server = running.use(await startNodeServer("upload-server", args, bench));
    const origin = originOfServer(server);
    const quiet = ["--silent", "--show-error", "--fail", "--noproxy", "*", "-o", "/dev/null"];
    const subjects = ways.map(({ name, path, isForm }) => ({
      name,
      async measure() {
        const url = path === "slot" ? await textOf(`${origin}/slot`) : `${origin}/${path}`;
        const idle = server.rssBytes();
        server.resetPeak();
        const cpuBefore = server.cpuSeconds();
        const what = isForm ? ["-F", `file=@${file};type=application/octet-stream`] : ["-T", file];
        const sent = await runToEnd("curl", [...quiet, "-H", "Expect:", ...what, url], bench);
        const cpu = server.cpuSeconds() - cpuBefore;
        const memory = Math.max(0, server.peakBytes() - idle) / MiB;
        return { seconds: sent.seconds, cpu, memory };
      },
    }));
    return { subjects: await takeTurns(bench, subjects) };
  },
};

const stepBytes = 16 * MiB;
const resumed = {
  tus: "tus-js-client to @tus/server, file store",
  ietf: "tus-js-client to Sluice, folder",
  folder: "Sluice's client to Sluice, folder",
  s3: "Sluice's client to Sluice, S3",
  azure: "Sluice's client to Sluice, Azure Blob",
};
const besideTus = faster(resumed.tus);

/** Files that are sent in steps, so that a broken connection costs one step at most. */
export const resumable: TableSpec = {
  id: "resumable",
  title: "Receiving a resumable upload",
  how: (bench) =>
    `A file of ${bench.quick ? 64 : 512} MiB. tus-js-client sends steps of ${stepBytes / MiB} MiB, Sluice's client the steps that the server takes; Sluice hashes, looks at the type, flushes and confirms, which @tus/server does not. Bytes moved: on a folder what the server process reads and writes beside what comes in (proc(5), io), at a service the bodies that go to it and come from it; each for one byte of the file.`,
  columns: [
    { key: "rate", title: "rate, @tus/server = 1.00", digits: 2, bars: true, is: besideTus },
    { key: "seconds", title: "seconds", digits: 2, is: each("seconds") },
    { key: "cpu", title: "CPU s of the server", digits: 2, is: each("cpu") },
    { key: "moved", title: "bytes moved a byte", digits: 2, bars: true, is: each("moved") },
    { key: "listings", title: "listings an upload", digits: 0, is: each("listings") },
  ],
  promises: [
    ...(
      [
        [resumed.folder, 2],
        [resumed.s3, 1],
        [resumed.azure, 1],
      ] as const
    ).flatMap(([of, most]) => [
      // headers, frames and the names of parts are moved, too
      { claim: `${of}: bytes moved a byte`, of, is: each("moved"), atMost: most + 0.02 },
      { claim: `${of}: listings`, of, is: each("listings"), atMost: 2 },
    ]),
    {
      claim: "tus-js-client, Sluice of @tus/server",
      of: resumed.ietf,
      is: besideTus,
      atLeast: 1,
      floor: {
        profile:
          "Sluice hashes each step and has it on the disk before it answers; @tus/server does neither. Among the uploads to disk a bare pipeline that flushes falls as far behind one that does not.",
      },
    },
  ],
  async measure(bench, running) {
    const bytes = (bench.quick ? 64 : 512) * MiB;
    const path = join(bench.files, await bench.file(bytes));
    const folder = await startReceiver(bench, running);
    const s3 = await startOver(bench, running, "s3");
    const azure = await startOver(bench, running, "azurite");
    const subject = (name: string, way: string, to: Receiver): Subject => ({
      name,
      measure: () => sendOnce(bench, way, to, { path, bytes }),
    });
    return {
      subjects: await takeTurns(bench, [
        subject(resumed.tus, "tus", folder),
        subject(resumed.ietf, "tus-ietf", folder),
        subject(resumed.folder, "sluice", folder),
        subject(resumed.s3, "sluice", s3),
        subject(resumed.azure, "sluice", azure),
      ]),
    };
  },
};

/** A server of uploads, and the proxy before its service. */
interface Receiver {
  readonly server: ServerProcess;
  readonly proxy?: ServerProcess;
}

async function startReceiver(bench: Bench, running: Running, service?: Service): Promise<Receiver> {
  const root = await bench.scratch("resumable");
  const options = JSON.stringify({ root, service, counted: true });
  return { server: running.use(await startNodeServer("upload-server", [options], bench)) };
}

/** The same over a service that is counted. */
async function startOver(bench: Bench, running: Running, kind: string): Promise<Receiver> {
  const storage = running.use(await startSourceServer("storage-service", [kind], bench));
  const service = storage.ready["service"] as Service;
  const args = ["count", originOf(service)];
  const proxy = running.use(await startNodeServer("stand-in", args, bench));
  const counted = behind(service, originOfServer(proxy));
  return { ...(await startReceiver(bench, running, counted)), proxy };
}

async function sendOnce(
  bench: Bench,
  way: string,
  { server, proxy }: Receiver,
  { path, bytes }: { readonly path: string; readonly bytes: number },
): Promise<Record<string, number>> {
  const origin = originOfServer(server);
  const count = async (counting: ServerProcess): Promise<number> =>
    Number(await textOf(`${originOfServer(counting)}/counted`));
  const isTus = way === "tus";
  const url = isTus ? `${origin}/tus` : await textOf(`${origin}/slot`);
  if (proxy) await count(proxy);
  const before = { moved: server.movedBytes(), cpu: server.cpuSeconds() };
  const seen = await observeClient(
    bench,
    "upload-client",
    [way, url, path, `${stepBytes}`],
    server,
  );
  // of what was sent: a confirmation is one more
  const listings = isTus ? 0 : Number(await textOf(`${origin}/listings`));
  const startedAt = performance.now();
  const kept = isTus ? bytes : Number(await textOf(`${origin}/confirm`));
  if (kept !== bytes) throw new Error(`bench: ${way}: ${kept} of ${bytes} bytes`);
  const seconds = seen.seconds + (performance.now() - startedAt) / 1000;
  const cpu = server.cpuSeconds() - before.cpu;
  // what comes in is read from the socket once
  const local = (server.movedBytes() - before.moved - bytes) / bytes;
  if (isTus) return { seconds, cpu, moved: local };
  return { seconds, cpu, moved: proxy ? (await count(proxy)) / bytes : local, listings };
}
