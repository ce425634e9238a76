/** Tables of servers: outside clients take files, and throw them away. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { GiB, KiB, MiB, type Bench } from "../lib/bench.ts";
import { createStalledReaders, curl, wrk } from "../lib/load.ts";
import * as peers from "../lib/peers.ts";
import { startNodeServer, type ServerProcess } from "../lib/processes.ts";
import { measureServing, sluiceNames, startField } from "../lib/serving.ts";
import {
  endpointOf,
  recordCall,
  recordStream,
  routeNames,
  startSluiceServer,
  uriOf,
  wrkScript,
  type RecordedCall,
  type Served,
  type SluiceRoute,
} from "../lib/sluice.ts";
import {
  beside,
  each,
  type MeasuredSubject,
  type Promised,
  type Quantity,
  type Running,
  type TableSpec,
} from "../lib/table.ts";

const routes: readonly SluiceRoute[] = ["download", "direct"];
const speedOf = (peer: string): Quantity => beside(peer, "bytesPerSecond");
const rateOf = (peer: string): Quantity => beside(peer, "requestsPerSecond");
const cpuOfNginx = beside(peers.nginx, "cpuSeconds");

const copied =
  "nginx has the kernel send its page cache; Node has no such call, so that each byte is copied into the process and out of it. What that costs beside sendfile differs between machines.";
const encrypted =
  "Encryption and the kernel take two thirds of the bare program's samples and three fifths of Sluice's; the rest is V8. nginx encrypts with the OpenSSL of the system, Node with its own.";

const large: Omit<TableSpec, "id" | "title" | "promises" | "measure"> = {
  how: "Client: curl to the void. Throughput, and CPU time of the server process; nginx = 1.00.",
  columns: [
    { key: "throughput", title: "throughput", digits: 2, bars: true, is: speedOf(peers.nginx) },
    { key: "cpu", title: "CPU", digits: 2, is: cpuOfNginx },
    { key: "cpuPerGiB", title: "CPU s/GiB", digits: 2, bars: true, is: each("cpuPerGiB") },
  ],
};

/** One large file to curl. */
export const serveLarge: TableSpec = {
  id: "serve-large",
  title: "Serving one 1 GiB file",
  ...large,
  promises: sluiceNames.flatMap((of): Promised[] => [
    speedOfNginx(of, copied),
    {
      claim: `${of} CPU of nginx`,
      of,
      is: cpuOfNginx,
      atMost: 1.15,
      floor: { of: peers.pump, profile: copied },
    },
    ...[peers.send, peers.expressStatic, peers.sirv, peers.hono].map((peer) => ({
      claim: `${of} of ${peer}`,
      of,
      is: speedOf(peer),
      atLeast: 3,
    })),
    { claim: `${of} of ${peers.sendTuned}`, of, is: speedOf(peers.sendTuned), atLeast: 1.25 },
  ]),
  async measure(bench, running) {
    const { nginx, pump, sendTuned, send, expressStatic, sirv, hono } = peers;
    const against = [nginx, pump, sendTuned, send, expressStatic, sirv, hono];
    return serveOne(bench, running, { peers: against });
  },
};

/** The same over TLS. */
export const serveTls: TableSpec = {
  id: "serve-tls",
  title: "Serving one 1 GiB file over HTTPS",
  ...large,
  promises: sluiceNames.map((of) => speedOfNginx(of, encrypted)),
  async measure(bench, running) {
    const tls = await peers.createCertificate(bench);
    return serveOne(bench, running, { peers: [peers.nginx, peers.pump, peers.send], tls });
  },
};

function speedOfNginx(of: string, profile: string): Promised {
  const floor = { of: peers.pump, profile };
  return { claim: `${of} of nginx`, of, is: speedOf(peers.nginx), atLeast: 1, floor };
}

async function serveOne(
  bench: Bench,
  running: Running,
  options: { readonly peers: readonly string[]; readonly tls?: peers.Tls },
): Promise<{ subjects: readonly MeasuredSubject[] }> {
  const bytes = bench.quick ? 256 * MiB : GiB;
  const file = await bench.file(bytes);
  const field = await startField(bench, running, { ...options, file, sluice: routes });
  const subjects = await measureServing(bench, field, async ({ url, curlArgs = [] }) => {
    return { bytes, seconds: await curl(url, bytes, { signal: bench.signal, args: curlArgs }) };
  });
  return { subjects };
}

const streams = 64;

/** Many streams at once. */
export const serveMany: TableSpec = {
  id: "serve-many",
  title: "64 concurrent streams of 16 MiB",
  how: `Client: one curl with ${streams} parallel transfers to the void. nginx = 1.00; peak is the server's resident memory at its highest.`,
  columns: [
    { key: "throughput", title: "throughput", digits: 2, bars: true, is: speedOf(peers.nginx) },
    { key: "cpu", title: "CPU", digits: 2, is: cpuOfNginx },
    { key: "peak", title: "peak MiB", digits: 0, bars: true, is: each("peakMiB") },
  ],
  promises: sluiceNames.flatMap((of): Promised[] => [
    {
      claim: `${of} of nginx`,
      of,
      is: speedOf(peers.nginx),
      atLeast: 0.9,
      floor: {
        of: peers.pump,
        profile: "The bare program needs three times nginx's processor time already.",
      },
    },
    {
      claim: `${of} of send`,
      of,
      is: speedOf(peers.send),
      atLeast: 1.8,
      floor: {
        of: peers.pump,
        profile:
          "Half of Sluice's samples are the kernel's, which sends and copies; a quarter are V8's, for 64 requests that begin at once.",
      },
    },
    {
      claim: `${of} peak MiB`,
      of,
      is: each("peakMiB"),
      atMost: 128,
      floor: {
        of: peers.pump,
        profile:
          "A Node process has about 70 MiB before the first request, and 16 MiB are the buffers of all streams.",
      },
    },
  ]),
  async measure(bench, running) {
    const fileBytes = (bench.quick ? 4 : 16) * MiB;
    const file = await bench.file(fileBytes);
    const against = [peers.nginx, peers.pump, peers.send];
    const field = await startField(bench, running, { peers: against, file, sluice: routes });
    const bytes = streams * fileBytes;
    const subjects = await measureServing(bench, field, async ({ url, curlArgs }) => {
      const options = { signal: bench.signal, parallel: streams, args: curlArgs ?? [] };
      // the glob makes 64 transfers of one address; a fragment never leaves curl
      return { bytes, seconds: await curl(`${url}#[1-${streams}]`, bytes, options) };
    });
    return { subjects };
  },
};

const ofSmall =
  "Of the processor time of Sluice 44 % is the write to the socket and 7 % the look at the file; Node's parser and header objects, the token and the access rule share the rest.";

/** Many requests for a small file. */
export const serveSmall: TableSpec = {
  id: "serve-small",
  title: "Serving a 4 KiB file over and over",
  how: "Client: wrk with 32 kept-alive connections. nginx = 1.00. Sluice opens the token and checks access on each request. The bare Node server answers every request with the same bytes from memory: no Node program is faster. The other one sends the headers of Sluice, too, and looks each time whether the file has changed, as Sluice and send do: the floor of what they promise.",
  columns: [
    { key: "rate", title: "requests/s", digits: 2, bars: true, is: rateOf(peers.nginx) },
    { key: "rateOfSend", title: "requests/s, send = 1.00", digits: 2, is: rateOf(peers.send) },
    {
      key: "rateOfFloor",
      title: "requests/s, bare Node = 1.00",
      digits: 2,
      is: rateOf(peers.fromMemory),
    },
    {
      key: "rateOfChecked",
      title: "requests/s, with headers and look = 1.00",
      digits: 2,
      is: rateOf(peers.fromMemoryChecked),
    },
  ],
  promises: [
    {
      claim: "Sluice of send",
      of: routeNames.download,
      is: rateOf(peers.send),
      atLeast: 2,
      floor: { of: peers.fromMemoryChecked, profile: ofSmall },
    },
    {
      claim: "Sluice of nginx",
      of: routeNames.download,
      is: rateOf(peers.nginx),
      atLeast: 0.5,
      floor: { of: peers.fromMemoryChecked, profile: ofSmall },
    },
  ],
  async measure(bench, running) {
    const { nginx, fromMemory, fromMemoryChecked, send, sirv } = peers;
    const field = await startField(bench, running, {
      peers: [nginx, fromMemory, fromMemoryChecked, send, sirv],
      file: await bench.file(4 * KiB),
      sluice: ["download"],
    });
    const load = { connections: 32, seconds: bench.quick ? 1 : 4, signal: bench.signal };
    const subjects = await measureServing(bench, field, async ({ url }) => ({
      requestsPerSecond: await wrk(url, load),
    }));
    return { subjects };
  },
};

const calls = {
  sdk: "resources/read, official SDK",
  read: "Sluice, resources/read",
  stream: "Sluice, resources/stream",
  bare: "resources/stream, the SDK and 4 KiB from memory",
};

/** Whole calls for a small file: what a host asks that reads many of them. */
export const smallCalls: TableSpec = {
  id: "small-calls",
  title: "Calls for a 4 KiB file",
  how: "Client: wrk, 16 kept-alive connections that repeat one call as the official client sent it. The SDK's server and Sluice's read the same file on each call: one answers with base64 in JSON, the other with the bytes. The last row is the least that a call through the SDK takes: no check, no file, no link. The SDK's = 1.00.",
  columns: [
    { key: "rate", title: "calls/s", digits: 2, bars: true, is: rateOf(calls.sdk) },
    { key: "cpu", title: "CPU µs of a call", digits: 0, is: each("cpuOfCall", 1e6) },
  ],
  promises: [
    {
      claim: "resources/stream of the SDK's resources/read",
      of: calls.stream,
      is: rateOf(calls.sdk),
      atLeast: 0.9,
      floor: {
        of: calls.bare,
        profile:
          "About half of the processor time is the SDK's own way from the request to the answer; the link that every answer carries takes 8 %, the write to the socket 15 %, the collection of garbage 14 %.",
      },
    },
  ],
  async measure(bench, running) {
    const file = await bench.file(4 * KiB);
    const uri = uriOf(file);
    const start = (...args: readonly string[]) => startNodeServer("sdk-server", args, bench);
    const official = running.use(await start("base64", bench.files));
    const sluice = running.use(await startSluiceServer(bench));
    const bare = running.use(await start("bare-call", join(bench.files, file)));
    const read = (endpoint: string): Promise<RecordedCall> =>
      recordCall(endpoint, { method: "resources/read", params: { uri } });
    const stream = (endpoint: string): Promise<RecordedCall> => recordStream(endpoint, uri);
    return repeatCalls(bench, [
      [calls.sdk, official, read],
      [calls.read, sluice, read],
      [calls.stream, sluice, stream],
      [calls.bare, bare, stream],
    ]);
  },
};

const mounts = 100;
const storages = { one: "one storage", many: `${mounts} mounts` };

/** What the number of mounts costs a call. */
export const mountsTable: TableSpec = {
  id: "mounts",
  title: `One storage, and ${mounts} mounts`,
  how: "Client: wrk, 16 kept-alive connections that repeat one `resources/stream` of a 4 KiB file with a direct answer. The file is in the last mount. One storage = 1.00.",
  columns: [
    { key: "rate", title: "requests/s", digits: 2, is: rateOf(storages.one) },
    { key: "cpu", title: "CPU of a request", digits: 2, is: beside(storages.one, "cpuOfCall") },
  ],
  promises: [
    {
      claim: `CPU of a request, ${mounts} mounts of one storage`,
      of: storages.many,
      is: beside(storages.one, "cpuOfCall"),
      atMost: 1.05,
    },
  ],
  async measure(bench, running) {
    const uri = uriOf(await bench.file(4 * KiB));
    const one = running.use(await startSluiceServer(bench));
    const many = running.use(await startSluiceServer(bench, { mounts }));
    const stream = (endpoint: string): Promise<RecordedCall> => recordStream(endpoint, uri);
    // the difference is smaller than what the machine does in the meantime
    const runs = bench.quick ? bench.runs : bench.runs * 3;
    return repeatCalls(
      bench,
      [
        [storages.one, one, stream],
        [storages.many, many, stream],
      ],
      runs,
    );
  },
};

type Repeated = readonly [
  name: string,
  server: ServerProcess,
  record: (endpoint: string) => Promise<RecordedCall>,
];

/** wrk repeats one call to each server, as the official client sent it. */
async function repeatCalls(
  bench: Bench,
  repeated: readonly Repeated[],
  runs?: number,
): Promise<{ subjects: readonly MeasuredSubject[] }> {
  const directory = await bench.scratch("calls");
  const scripts = new Map<string, string>();
  const served: Served[] = [];
  for (const [name, server, record] of repeated) {
    const url = endpointOf(server);
    const script = join(directory, `${scripts.size}.lua`);
    await writeFile(script, wrkScript(await record(url)));
    scripts.set(name, script);
    served.push({ name, server, url });
  }
  const seconds = bench.quick ? 1 : 4;
  const load = async ({ name, url, server }: Served) => {
    const before = server.cpuSeconds();
    const script = scripts.get(name)!;
    const options = { connections: 16, seconds, script, signal: bench.signal };
    const requestsPerSecond = await wrk(url, options);
    const cpu = server.cpuSeconds() - before;
    return { requestsPerSecond, cpuOfCall: cpu / (requestsPerSecond * seconds) };
  };
  return { subjects: await measureServing(bench, served, load, runs) };
}

const readers = [100, 256];

/** Readers that ask for a large file and then take nothing. */
export const stalled: TableSpec = {
  id: "stalled",
  title: "Stalled readers",
  how: "Readers on the same machine that ask for 1 GiB and then read nothing: growth of the server's resident memory over idle, by reader.",
  columns: readers.map((count) => ({
    key: String(count),
    title: `${count} readers, MiB each`,
    digits: 2,
    bars: true,
    is: each(String(count)),
  })),
  promises: readers.map((count) => ({
    claim: `${count} stalled readers, MiB each`,
    of: routeNames.download,
    is: each(String(count)),
    atMost: 1.5,
  })),
  async measure(bench, running) {
    const field = await startField(bench, running, {
      peers: [peers.nginx, peers.pump, peers.send],
      file: await bench.sparseFile(GiB),
      sluice: ["download"],
    });
    const subjects: MeasuredSubject[] = [];
    for (const subject of field) {
      if ("absent" in subject) {
        subjects.push(subject);
        continue;
      }
      const { name, server, url } = subject;
      const idle = server.rssBytes();
      const sample: Record<string, number> = {};
      for (const count of readers) {
        await using open = createStalledReaders(url, bench.signal);
        await open.open(count);
        const mib = (server.rssBytes() - idle) / MiB / count;
        sample[count] = mib;
        bench.say(`  ${name}: ${count} readers, ${mib.toFixed(2)} MiB each`);
      }
      subjects.push({ name, samples: [sample] });
    }
    return { subjects };
  },
};
