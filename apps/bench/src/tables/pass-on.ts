/** Tables of servers that stand between: nginx in front that sends the files, storage services behind. */
import { GiB, MiB, type Bench } from "../lib/bench.ts";
import { curl, isInstalled } from "../lib/load.ts";
import { nginx, startNginxOffload, startNginxPass, type OffloadPlace } from "../lib/peers.ts";
import { startNodeServer, startSourceServer, type ServerProcess } from "../lib/processes.ts";
import { freePort } from "../lib/program.ts";
import { openBackend, type Service } from "../lib/service.ts";
import { measureServing, startField } from "../lib/serving.ts";
import { routeNames, startSluice, type Served, type SluiceRoute } from "../lib/sluice.ts";
import {
  beside,
  each,
  takeTurns,
  type MeasuredSubject,
  type Promised,
  type Quantity,
  type Subject,
  type TableSpec,
  type Running,
} from "../lib/table.ts";

/** What a row name has before its first ": ", the size or the service. */
const groupOf = (name: string): string => name.slice(0, name.indexOf(": "));
const within =
  (base: string) =>
  (name: string): string =>
    `${groupOf(name)}: ${base}`;

const offloadRoutes: readonly SluiceRoute[] = ["download", "direct"];
const offloaded = (route: SluiceRoute): string => `${routeNames[route]}, offloaded`;

/** Files that Node decides about, and nginx sends. */
export const offload: TableSpec = {
  id: "offload",
  title: "Leaving files to the nginx in front",
  how: "Client: curl to the void, one transfer after the other. Server CPU is that of Node alone; CPU of both has nginx with it, and nginx that serves the same files by itself = 1.00. Large files show what is left of sending, smaller ones what deciding costs.",
  columns: [
    {
      key: "throughput",
      title: "throughput",
      digits: 2,
      bars: true,
      is: beside(within(nginx), "bytesPerSecond"),
    },
    { key: "cpuPerGiB", title: "server CPU s/GiB", digits: 3, bars: true, is: each("cpuPerGiB") },
    { key: "cpuOfBoth", title: "CPU of both", digits: 2, is: beside(within(nginx), "cpuOfBoth") },
  ],
  promises: offloadRoutes.flatMap((route): Promised[] => [
    {
      claim: `${offloaded(route)}: server CPU of ${routeNames[route]}`,
      of: `1 GiB: ${offloaded(route)}`,
      is: beside(within(routeNames[route]), "cpuSeconds"),
      atMost: 0.1,
    },
    {
      claim: `${offloaded(route)}: CPU of both of nginx`,
      of: `1 GiB: ${offloaded(route)}`,
      is: beside(within(nginx), "cpuOfBoth"),
      atMost: 1.1,
      floor: { profile: "The server's part of it is 2 %; the rest is nginx that sends the file." },
    },
  ]),
  async measure(bench, running) {
    if (bench.peersOnly || !(await isInstalled("nginx"))) return { subjects: [] };
    // so many that a tick of the processor clock, 10 ms, is little beside them
    const bytes = (bench.quick ? 2 : 8) * GiB;
    const subjects: MeasuredSubject[] = [];
    for (const [title, fileBytes] of [
      ["1 GiB", GiB],
      ["16 MiB", 16 * MiB],
    ] as const)
      for (const subject of await sendMany(bench, running, { fileBytes, bytes }))
        subjects.push({ ...subject, name: `${title}: ${subject.name}` });
    return { subjects };
  },
};

/** Every subject sends one file until `bytes` are sent. */
async function sendMany(
  bench: Bench,
  running: Running,
  { fileBytes, bytes }: { readonly fileBytes: number; readonly bytes: number },
): Promise<readonly MeasuredSubject[]> {
  const file = await bench.file(fileBytes);
  const options = { peers: [nginx], file, sluice: offloadRoutes };
  const field = [...(await startField(bench, running, options))];
  const proxies = new Map<string, ServerProcess>();
  for (const route of offloadRoutes) {
    const publicPort = await freePort();
    const place: OffloadPlace = { prefix: "/_sluice/", secret: "0123456789abcdef" };
    const to = await freePort();
    const proxy = await startNginxOffload(bench, { ...place, port: publicPort, to });
    proxies.set(offloaded(route), running.use(proxy));
    const served = await startSluice(bench, route, file, { port: to, publicPort, offload: place });
    running.use(served.server);
    field.push({ ...served, name: offloaded(route) });
  }
  const count = bytes / fileBytes;
  return measureServing(bench, field, async ({ name, url, curlArgs = [], server }) => {
    const cpuOfAll = (): number => server.cpuSeconds() + (proxies.get(name)?.cpuSeconds() ?? 0);
    const before = cpuOfAll();
    // the glob makes many transfers of one address; a fragment never leaves curl
    const args = { signal: bench.signal, args: curlArgs };
    const seconds = await curl(`${url}#[1-${count}]`, bytes, args);
    return { bytes, seconds, cpuOfBoth: cpuOfAll() - before };
  });
}

interface ServiceRows {
  readonly kind: Service["kind"];
  readonly name: string;
  /** What a server does with the service's own SDK. */
  readonly sdk: string;
  /** Other libraries that read from it. */
  readonly others: readonly string[];
}

const services: readonly ServiceRows[] = [
  { kind: "s3", name: "S3", sdk: "pipeline(SDK body, res)", others: ["files-sdk"] },
  { kind: "azure-blob", name: "Azure Blob", sdk: "pipeline(SDK body, res)", others: [] },
  { kind: "graph", name: "Graph", sdk: "pipeline(undici body, res)", others: [] },
];
const passRoutes: readonly SluiceRoute[] = ["direct", "download"];
const proxyPass = "nginx proxy_pass";
const socketToSocket = "bare Node, socket to socket";
const besideSdk: Quantity = (name, samples) => {
  const { sdk = "" } = services.find((service) => service.name === groupOf(name)) ?? {};
  return beside(within(sdk), "rate")(name, samples);
};
const besideNginx = beside(within(proxyPass), "rate");

/** Objects of storage services that pass through a server. */
export const proxy: TableSpec = {
  id: "proxy",
  title: "Passing on 1 GiB from a storage service",
  how: "Three local services that make up their bytes, each behind servers that pass them on to curl to the void: a bare Node server with the service's own SDK, nginx with a URL that the service signed, a Node program that reads one socket and writes another without a look at HTTP, and Sluice. CPU is that of the server between both.",
  columns: [
    { key: "rate", title: "rate, pipeline = 1.00", digits: 2, bars: true, is: besideSdk },
    { key: "ofNginx", title: "rate, nginx = 1.00", digits: 2, is: besideNginx },
    { key: "seconds", title: "seconds", digits: 2, is: each("seconds") },
    { key: "cpuPerGiB", title: "CPU s/GiB", digits: 2, bars: true, is: each("cpuPerGiB") },
  ],
  promises: services.flatMap(({ name }) =>
    passRoutes.flatMap((route) => {
      const of = `${name}: ${routeNames[route]}`;
      const floor = {
        of: `${name}: ${socketToSocket}`,
        profile:
          "Three quarters of the processor time and more are the bare program's, too: reading one socket and writing another.",
      };
      return [
        { claim: `${of} of pipeline`, of, is: besideSdk, atLeast: 1.5, floor },
        { claim: `${of} of nginx`, of, is: besideNginx, atLeast: 0.8, floor },
      ];
    }),
  ),
  async measure(bench, running) {
    const bytes = bench.quick ? 256 * MiB : GiB;
    const hasNginx = await isInstalled("nginx");
    const subjects: Subject[] = [];
    for (const service of services) {
      const args = [service.kind, `${bytes}`];
      const storage = running.use(await startSourceServer("storage-service", args, bench));
      const place = storage.ready["service"] as Service;
      const ways = await startWays(bench, service, {
        place,
        object: `${bytes}`,
        hasNginx,
        running,
      });
      for (const [name, served] of ways)
        subjects.push({
          name: `${service.name}: ${name}`,
          absent: served ? undefined : "not installed",
          async measure() {
            const { url, server, curlArgs = [] } = served!;
            const before = server.cpuSeconds();
            const seconds = await curl(url, bytes, { signal: bench.signal, args: curlArgs });
            const cpuPerGiB = ((server.cpuSeconds() - before) * GiB) / bytes;
            return { seconds, rate: 1 / seconds, cpuPerGiB };
          },
        });
    }
    return { subjects: await takeTurns(bench, subjects) };
  },
};

interface Passing {
  readonly place: Service;
  readonly object: string;
  readonly hasNginx: boolean;
  readonly running: Running;
}

type Way = readonly [name: string, served: Omit<Served, "name"> | undefined];

/** Every server that passes on the object of one service. */
async function startWays(
  bench: Bench,
  { sdk, others }: ServiceRows,
  { place, object, hasNginx, running }: Passing,
): Promise<readonly Way[]> {
  const at = (server: ServerProcess, path: string): Omit<Served, "name"> => ({
    server: running.use(server),
    url: `http://127.0.0.1:${server.ready.port}/${path}`,
  });
  const byHand = async (way: string) =>
    at(await startNodeServer("storage-proxy", [way, JSON.stringify(place)], bench), object);
  const ways: Way[] = [[sdk, await byHand("pipeline")]];
  for (const library of others) ways.push([`${library} to the response`, await byHand(library)]);
  const signed = await signedUrl(place, object);
  ways.push([proxyPass, hasNginx ? at(await startNginxPass(bench, signed), "object") : undefined]);
  const bare = await startNodeServer("stand-in", ["proxy", signed], bench);
  ways.push([socketToSocket, at(bare, "object")]);
  for (const route of passRoutes) {
    const ours = await startSluice(bench, route, object, { service: place });
    running.use(ours.server);
    ways.push([routeNames[route], ours]);
  }
  return ways;
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
