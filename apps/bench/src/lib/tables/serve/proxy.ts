import { GiB, MiB, type Bench } from "../../bench.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { startNginxPass } from "../../nginx.ts";
import { curl, isInstalled } from "../../outside-client.ts";
import { startNodeServer, startSourceServer, type ServerProcess } from "../../server-process.ts";
import { createRunning, type Running } from "../../running.ts";
import { openBackend, type Service } from "../../service.ts";
import type { Served } from "../../serving.ts";
import { nameOfRoute, startSluice, type SluiceRoute } from "../../sluice.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const services = [
  { kind: "s3", name: "S3", sdk: "S3: pipeline(SDK body, res)", others: ["files-sdk"] },
  {
    kind: "azure-blob",
    name: "Azure Blob",
    sdk: "Azure Blob: pipeline(SDK body, res)",
    others: [],
  },
  { kind: "graph", name: "Graph", sdk: "Graph: pipeline(undici body, res)", others: [] },
] as const satisfies readonly {
  readonly kind: Service["kind"];
  readonly name: string;
  readonly sdk: string;
  readonly others: readonly string[];
}[];
type Named = (typeof services)[number];

const routes: readonly SluiceRoute[] = ["direct", "download"];
const nginxOf = ({ name }: Named): string => `${name}: nginx proxy_pass`;
const bareOf = ({ name }: Named): string => `${name}: bare Node, socket to socket`;
const sluiceOf = ({ name }: Named, route: SluiceRoute): string => `${name}: ${nameOfRoute(route)}`;
const otherOf = ({ name }: Named, library: string): string => `${name}: ${library} to the response`;

/** Objects of storage services that pass through a server. */
export const proxy: Experiment = {
  id: "proxy",
  title: "Passing on 1 GiB from a storage service",
  async run(bench: Bench): Promise<Table> {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const hasNginx = await isInstalled("nginx");
    await using running = createRunning();
    const subjects: Subject[] = [];
    for (const service of services) {
      const storage = running.use(
        await startSourceServer("storage-server", [service.kind, `${bytes}`], bench),
      );
      const place = storage.ready["service"] as Service;
      for (const served of await startWays(bench, service, { place, bytes, hasNginx, running }))
        subjects.push(subjectOf(bench, served, bytes));
    }
    const samples = await interleave(subjects, {
      runs: bench.runs,
      onRun: (name, round, { seconds }) =>
        bench.say(`  ${round + 1}/${bench.runs} ${name}: ${seconds!.toFixed(2)} s`),
    });
    const of = (name: string, other: string): Summary | undefined =>
      ratio(samples.get(name), samples.get(other), "rate");
    const rows = services.flatMap((service) => {
      const others = service.others.map((library) => otherOf(service, library));
      const ours = routes.map((route) => sluiceOf(service, route));
      return rowsOf(
        [service.sdk, ...others, nginxOf(service), bareOf(service), ...ours],
        hasNginx ? [] : [nginxOf(service)],
        (name) => ({
          rate: of(name, service.sdk),
          ofNginx: of(name, nginxOf(service)),
          seconds: across(samples.get(name), "seconds"),
          cpuPerGiB: across(samples.get(name), "cpuSeconds", GiB / bytes),
        }),
      );
    });
    return {
      how: "Three local services that make up their bytes, each behind servers that pass them on to curl to the void: a bare Node server with the service's own SDK, nginx with a URL that the service signed, a Node program that reads one socket and writes another without a look at HTTP, and Sluice. CPU is that of the server between both.",
      columns: [
        { key: "rate", title: "rate, pipeline = 1.00", digits: 2, bars: true },
        { key: "ofNginx", title: "rate, nginx = 1.00", digits: 2 },
        { key: "seconds", title: "seconds", digits: 2 },
        { key: "cpuPerGiB", title: "CPU s/GiB", digits: 2, bars: true },
      ],
      rows,
      reach: services.flatMap((service) =>
        routes.flatMap((route) => {
          const name = sluiceOf(service, route);
          return [
            { peer: service.sdk, title: "pipeline", atLeast: 1.5 },
            { peer: nginxOf(service), title: "nginx", atLeast: 0.8 },
          ].map(({ peer, title, atLeast }) => ({
            claim: `${name} of ${title}`,
            atLeast,
            got: of(name, peer),
            floor: {
              got: of(bareOf(service), peer),
              profile:
                "Three quarters of the processor time and more are the bare program's, too: reading one socket and writing another.",
            },
          }));
        }),
      ),
    };
  },
};

interface Passing {
  readonly place: Service;
  readonly bytes: number;
  readonly hasNginx: boolean;
  readonly running: Running;
}

/** Every server that passes on the object of one service. */
async function startWays(
  bench: Bench,
  service: Named,
  { place, bytes, hasNginx, running }: Passing,
): Promise<readonly Served[]> {
  const byHand = async (name: string, way: string): Promise<Served> => {
    const args = [way, JSON.stringify(place)];
    const server = running.use(await startNodeServer("storage-proxy", args, bench));
    return { name, server, url: `http://127.0.0.1:${server.ready.port}/${bytes}` };
  };
  const served = [await byHand(service.sdk, "pipeline")];
  for (const library of service.others)
    served.push(await byHand(otherOf(service, library), library));
  const passOn = (name: string, server: ServerProcess): void => {
    running.use(server);
    served.push({ name, server, url: `http://127.0.0.1:${server.ready.port}/object` });
  };
  const signed = await signedUrl(place, `${bytes}`);
  if (hasNginx) {
    const directory = await bench.scratch("nginx");
    passOn(
      nginxOf(service),
      await startNginxPass({ directory, url: signed, signal: bench.signal }),
    );
  }
  passOn(bareOf(service), await startNodeServer("bare-proxy", [signed], bench));
  for (const route of routes) {
    const ours = await startSluice(bench, route, `${bytes}`, { service: place });
    running.use(ours.server);
    served.push({ ...ours, name: sluiceOf(service, route) });
  }
  return served;
}

/** A URL that the service signed. */
async function signedUrl(place: Service, key: string): Promise<string> {
  const backend = openBackend(place);
  try {
    const signed = await backend.presign!(key, { expiresInMs: 60 * 60_000 });
    if (signed === undefined) throw new Error("bench: the service signs no URL");
    return signed.url;
  } finally {
    await backend.close?.();
  }
}

function subjectOf(
  bench: Bench,
  { name, server, url, curlArgs = [] }: Served,
  bytes: number,
): Subject {
  return {
    name,
    async measure() {
      const before = server.cpuSeconds();
      const seconds = await curl(url, bytes, { signal: bench.signal, args: curlArgs });
      return { seconds, rate: 1 / seconds, cpuSeconds: server.cpuSeconds() - before };
    },
  };
}
