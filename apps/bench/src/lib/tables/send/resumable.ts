import { join } from "node:path";
import { MiB, type Bench } from "../../bench.ts";
import { observeClient } from "../../client-process.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { createRunning, type Running } from "../../running.ts";
import { startNodeServer, startSourceServer, type ServerProcess } from "../../server-process.ts";
import { behind, originOf, type Service } from "../../service.ts";
import { across, ratio, type Sample } from "../../statistics.ts";
import type { Experiment, Reach, Table } from "../../table.ts";
import type { Counted } from "../../../counting-proxy.ts";

const names = {
  tus: "tus-js-client to @tus/server, file store",
  ietf: "tus-js-client to Sluice, folder",
  folder: "Sluice's client to Sluice, folder",
  s3: "Sluice's client to Sluice, S3",
  azure: "Sluice's client to Sluice, Azure Blob",
};

/** Files that are sent in steps, so that a broken connection costs one step at most. */
export const resumable: Experiment = {
  id: "resumable",
  title: "Receiving a resumable upload",
  async run(bench: Bench): Promise<Table> {
    const bytes = (bench.quick ? 64 : 512) * MiB;
    const path = join(bench.files, await bench.file(bytes));
    await using running = createRunning();
    const folder = await startServer(bench, running);
    const s3 = await startOver(bench, running, "s3");
    const azure = await startOver(bench, running, "azurite");
    const send = (way: string, to: Receiver): (() => Promise<Sample>) =>
      sendOnce(bench, way, to, { path, bytes });
    const subjects: readonly Subject[] = [
      { name: names.tus, measure: send("tus", folder) },
      { name: names.ietf, measure: send("tus-ietf", folder) },
      { name: names.folder, measure: send("sluice", folder) },
      { name: names.s3, measure: send("sluice", s3) },
      { name: names.azure, measure: send("sluice", azure) },
    ];
    const samples = await interleave(subjects, {
      runs: bench.runs,
      onRun: (name, _round, { seconds, moved, listings }) =>
        bench.say(
          `  ${name}: ${seconds!.toFixed(2)} s, ${moved!.toFixed(2)} bytes moved a byte, ${listings} listings`,
        ),
    });
    const of = (name: string, key: string) => across(samples.get(name), key);
    const rate = (name: string) => ratio(samples.get(names.tus), samples.get(name), "seconds");
    const limits = [
      [names.folder, 2],
      [names.s3, 1],
      [names.azure, 1],
    ] as const;
    return {
      how: `A file of ${bytes / MiB} MiB. tus-js-client sends steps of ${stepBytes / MiB} MiB, Sluice's client the steps that the server takes; Sluice hashes, looks at the type, flushes and confirms, which @tus/server does not. Bytes moved: on a folder what the server process reads and writes beside what comes in (proc(5), io), at a service the bodies that go to it and come from it; each for one byte of the file.`,
      columns: [
        { key: "rate", title: "rate, @tus/server = 1.00", digits: 2, bars: true },
        { key: "seconds", title: "seconds", digits: 2 },
        { key: "cpu", title: "CPU s of the server", digits: 2 },
        { key: "moved", title: "bytes moved a byte", digits: 2, bars: true },
        { key: "listings", title: "listings an upload", digits: 0 },
      ],
      rows: Object.values(names).map((name) => ({
        name,
        cells: {
          rate: rate(name),
          seconds: of(name, "seconds"),
          cpu: of(name, "cpu"),
          moved: of(name, "moved"),
          ...(name === names.tus ? {} : { listings: of(name, "listings") }),
        },
      })),
      reach: [
        ...limits.flatMap(([name, most]): Reach[] => [
          // headers, frames and the names of parts are moved, too
          { claim: `${name}: bytes moved a byte`, atMost: most + 0.02, got: of(name, "moved") },
          { claim: `${name}: listings`, atMost: 2, got: of(name, "listings") },
        ]),
        {
          claim: "tus-js-client, Sluice of @tus/server",
          atLeast: 1,
          got: rate(names.ietf),
          floor: {
            profile:
              "Sluice hashes each step and has it on the disk before it answers; @tus/server does neither. Among the uploads to disk a bare pipeline that flushes falls as far behind one that does not.",
          },
        },
      ],
    };
  },
};

const stepBytes = 16 * MiB;

/** A server of uploads, and the proxy before its service. */
interface Receiver {
  readonly server: ServerProcess;
  readonly origin: string;
  readonly proxy?: ServerProcess;
}

async function startServer(
  bench: Bench,
  running: Running,
  service?: Service,
  proxy?: ServerProcess,
): Promise<Receiver> {
  const options = JSON.stringify({ root: await bench.scratch("resumable"), service });
  const server = running.use(await startNodeServer("resumable-server", [options], bench));
  const receiver = { server, origin: `http://127.0.0.1:${server.ready.port}` };
  return proxy ? { ...receiver, proxy } : receiver;
}

/** The same over a service that is counted. */
async function startOver(bench: Bench, running: Running, kind: string): Promise<Receiver> {
  const storage = running.use(await startSourceServer("storage-server", [kind], bench));
  const service = storage.ready["service"] as Service;
  const proxy = running.use(await startNodeServer("counting-proxy", [originOf(service)], bench));
  return startServer(
    bench,
    running,
    behind(service, `http://127.0.0.1:${proxy.ready.port}`),
    proxy,
  );
}

interface Sending {
  readonly path: string;
  readonly bytes: number;
}

function sendOnce(
  bench: Bench,
  way: string,
  { server, origin, proxy }: Receiver,
  { path, bytes }: Sending,
): () => Promise<Sample> {
  const ask = async (what: string, from = origin): Promise<string> => {
    const answer = await fetch(`${from}/${what}`);
    return answer.text();
  };
  const count = async (): Promise<Counted> =>
    JSON.parse(await ask("counted", `http://127.0.0.1:${proxy?.ready.port}`)) as Counted;
  return async () => {
    const isTus = way === "tus";
    const url = isTus ? `${origin}/tus` : await ask("slot");
    if (proxy) await count();
    const before = { moved: server.movedBytes(), cpu: server.cpuSeconds() };
    const args = [way, url, path, `${stepBytes}`];
    const seen = await observeClient(bench, "upload-client", args, server);
    // of what was sent: a confirmation is one more
    const listings = isTus ? 0 : Number(await ask("listings"));
    const startedAt = performance.now();
    const kept = isTus ? bytes : Number(await ask("confirm"));
    if (kept !== bytes) throw new Error(`bench: ${way}: ${kept} of ${bytes} bytes`);
    const seconds = seen.seconds + (performance.now() - startedAt) / 1000;
    const cpu = server.cpuSeconds() - before.cpu;
    // what comes in is read from the socket once
    const local = (server.movedBytes() - before.moved - bytes) / bytes;
    if (isTus) return { seconds, cpu, moved: local };
    const moved = proxy ? (await count()).bytes / bytes : local;
    return { seconds, cpu, moved, listings };
  };
}
