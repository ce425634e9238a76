import { GiB, MiB, type Bench } from "../bench.ts";
import { observeClient } from "../client-process.ts";
import { interleave, type Subject } from "../interleave.ts";
import { curl } from "../outside-client.ts";
import { startSourceServer, type ServerProcess } from "../server-process.ts";
import type { Service } from "../service.ts";
import { nameOfRoute, startSluice, type SluiceRoute } from "../sluice.ts";
import { across, ratio, type Summary } from "../statistics.ts";
import type { Experiment, Table } from "../table.ts";

const services = [
  { kind: "s3", alone: "S3: its SDK alone", name: "S3" },
  { kind: "azure-blob", alone: "Azure Blob: its SDK alone", name: "Azure Blob" },
  { kind: "graph", alone: "Graph: undici alone", name: "Graph" },
] as const satisfies readonly { readonly kind: Service["kind"]; alone: string; name: string }[];
const routes: readonly SluiceRoute[] = ["direct", "download"];

/** Objects of storage services that pass through a Sluice server. */
export const proxy: Experiment = {
  id: "proxy",
  title: "Passing on 1 GiB from a storage service",
  async run(bench: Bench): Promise<Table> {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const warmUp = 64 * MiB;
    await using started = createServers();
    const subjects: Subject[] = [];
    for (const { kind, name, alone } of services) {
      const storage = started.keep(
        await startSourceServer("storage-server", [kind, `${bytes}`, `${warmUp}`], bench),
      );
      const service = storage.ready["service"] as Service;
      subjects.push(readAlone(bench, alone, { storage, service, bytes, warmUp }));
      for (const route of routes) {
        const served = await startSluice(bench, route, `${bytes}`, { service });
        const { server, url, curlArgs = [] } = served;
        started.keep(server);
        subjects.push({
          name: `${name}: ${nameOfRoute(route)}`,
          async measure() {
            const before = server.cpuSeconds();
            const seconds = await curl(url, bytes, { signal: bench.signal, args: curlArgs });
            return { seconds, rate: 1 / seconds, cpuSeconds: server.cpuSeconds() - before };
          },
        });
      }
    }
    const samples = await interleave(subjects, {
      runs: bench.runs,
      onRun: (name, round, { seconds }) =>
        bench.say(`  ${round + 1}/${bench.runs} ${name}: ${seconds!.toFixed(2)} s`),
    });
    const of = (name: string, alone: string): Summary | undefined =>
      ratio(samples.get(name), samples.get(alone), "rate");
    const rows = services.flatMap(({ name, alone }) =>
      [alone, ...routes.map((route) => `${name}: ${nameOfRoute(route)}`)].map((row) => ({
        row,
        alone,
      })),
    );
    return {
      how: "Three local services that make up their bytes, each read by its own SDK to the void, and by a Sluice server that passes them on to curl to the void; alone = 1.00. CPU is that of the reader of the service: the SDK's process, or Sluice's server.",
      columns: [
        { key: "rate", title: "rate", digits: 2, bars: true },
        { key: "seconds", title: "seconds", digits: 2 },
        { key: "cpuPerGiB", title: "CPU s/GiB", digits: 2, bars: true },
      ],
      rows: rows.map(({ row, alone }) => ({
        name: row,
        cells: {
          rate: of(row, alone),
          seconds: across(samples.get(row), "seconds"),
          cpuPerGiB: across(samples.get(row), "cpuSeconds", GiB / bytes),
        },
      })),
      reach: rows
        .filter(({ row, alone }) => row !== alone)
        .map(({ row, alone }) => ({
          claim: `${row} of the same read alone`,
          atLeast: 0.9,
          got: of(row, alone),
        })),
    };
  },
};

/** Servers that end together. */
function createServers(): AsyncDisposable & { keep<S extends AsyncDisposable>(server: S): S } {
  const servers: AsyncDisposable[] = [];
  return {
    keep(server) {
      servers.push(server);
      return server;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    },
  };
}

interface Reading {
  readonly storage: ServerProcess;
  readonly service: Service;
  readonly bytes: number;
  readonly warmUp: number;
}

function readAlone(
  bench: Bench,
  name: string,
  { storage, service, bytes, warmUp }: Reading,
): Subject {
  return {
    name,
    async measure() {
      const args = [JSON.stringify(service), `${bytes}`, `${warmUp}`];
      const seen = await observeClient(bench, "sdk-client", args, storage);
      if (seen.bytes !== bytes) throw new Error(`bench: ${name}: got ${seen.bytes} bytes`);
      const { seconds, cpuSeconds } = seen;
      return { seconds, rate: 1 / seconds, cpuSeconds };
    },
  };
}
