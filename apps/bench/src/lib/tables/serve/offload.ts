import { GiB, MiB, type Bench } from "../../bench.ts";
import { startNginxOffload } from "../../nginx.ts";
import { curl, isInstalled } from "../../outside-client.ts";
import { nginx as sendfile } from "../../peers.ts";
import { freePort, type ServerProcess } from "../../server-process.ts";
import { measureServing, startField, type Served } from "../../serving.ts";
import {
  deliveryOf,
  nameOfRoute,
  servedBy,
  startSluiceServer,
  type SluiceRoute,
} from "../../sluice.ts";
import { across, ratio, type Sample, type Summary } from "../../statistics.ts";
import type { Experiment, Reach, Row, Table } from "../../table.ts";

const routes = ["download", "direct"] as const satisfies readonly SluiceRoute[];
const offloaded = (route: SluiceRoute): string => `${nameOfRoute(route)}, offloaded`;
const how =
  "Client: curl to the void, one transfer after the other. Server CPU is that of Node alone; CPU of both has nginx with it, and nginx that serves the same files by itself = 1.00. Large files show what is left of sending, smaller ones what deciding costs.";

/** Files that Node decides about, and nginx sends. */
export const offload: Experiment = {
  id: "offload",
  title: "Leaving files to the nginx in front",
  async run(bench): Promise<Table> {
    const columns = [
      { key: "throughput", title: "throughput", digits: 2, bars: true },
      { key: "cpuPerGiB", title: "server CPU s/GiB", digits: 3, bars: true },
      { key: "cpuOfBoth", title: "CPU of both", digits: 2 },
    ] as const;
    if (bench.peersOnly || !(await isInstalled("nginx")))
      return { how: `${how} Not measured here.`, columns, rows: [], reach: [] };
    const rows: Row[] = [];
    const reach: Reach[] = [];
    // so many that a tick of the processor clock, 10 ms, is little beside them
    const gibibytes = bench.quick ? 2 : 8;
    for (const [title, fileBytes] of [
      ["1 GiB", GiB],
      ["16 MiB", 16 * MiB],
    ] as const) {
      const samples = await measure(bench, fileBytes, (gibibytes * GiB) / fileBytes);
      const of = (name: string, base: string, key: string): Summary | undefined =>
        ratio(samples.get(name), samples.get(base), key);
      for (const name of samples.keys())
        rows.push({
          name: `${title}: ${name}`,
          cells: {
            throughput: of(name, sendfile.name, "bytesPerSecond"),
            cpuPerGiB: across(samples.get(name), "cpuSeconds", 1 / gibibytes),
            cpuOfBoth: of(name, sendfile.name, "cpuOfBoth"),
          },
        });
      if (fileBytes === GiB) reach.push(...routes.flatMap((route) => reachOf(route, of)));
    }
    return { how, columns, rows, reach };
  },
};

function reachOf(
  route: SluiceRoute,
  of: (name: string, base: string, key: string) => Summary | undefined,
): Reach[] {
  const name = offloaded(route);
  return [
    {
      claim: `${name}: server CPU of ${nameOfRoute(route)}`,
      atMost: 0.1,
      got: of(name, nameOfRoute(route), "cpuSeconds"),
    },
    {
      claim: `${name}: CPU of both of nginx`,
      atMost: 1.1,
      got: of(name, sendfile.name, "cpuOfBoth"),
      floor: { profile: "The server's part of it is 2 %; the rest is nginx that sends the file." },
    },
  ];
}

/** Every subject sends one file `count` times a run. */
async function measure(
  bench: Bench,
  fileBytes: number,
  count: number,
): Promise<ReadonlyMap<string, readonly Sample[]>> {
  const file = await bench.file(fileBytes);
  await using field = await startField(bench, { peers: [sendfile], file, sluice: routes });
  await using front = await startOffloaded(bench, file);
  return await measureServing(bench, [...field.served, ...front.served], async (subject) => {
    const { name, url, curlArgs = [], server } = subject;
    const proxy = front.proxies.get(name);
    const cpuOfAll = (): number => server.cpuSeconds() + (proxy?.cpuSeconds() ?? 0);
    const before = cpuOfAll();
    const bytes = count * fileBytes;
    // the glob makes many transfers of one address; a fragment never leaves curl
    const options = { signal: bench.signal, args: curlArgs };
    const seconds = await curl(`${url}#[1-${count}]`, bytes, options);
    return { bytesPerSecond: bytes / seconds, cpuOfBoth: cpuOfAll() - before };
  });
}

interface Offloaded extends AsyncDisposable {
  readonly served: readonly Served[];
  /** The nginx of each, by name. */
  readonly proxies: ReadonlyMap<string, ServerProcess>;
}

/** Starts a server and an nginx for each way of Sluice to hand bytes over. */
async function startOffloaded(bench: Bench, file: string): Promise<Offloaded> {
  const served: Served[] = [];
  const proxies = new Map<string, ServerProcess>();
  const running: ServerProcess[] = [];
  const dispose = async (): Promise<void> => {
    await Promise.all(running.map((server) => server[Symbol.asyncDispose]()));
  };
  try {
    for (const route of routes) {
      const publicPort = await freePort();
      const place = { prefix: "/_sluice/", secret: "0123456789abcdef" };
      const delivery = deliveryOf(route);
      const server = await startSluiceServer(bench, { delivery, publicPort, offload: place });
      running.push(server);
      const proxy = await startNginxOffload({
        ...place,
        port: publicPort,
        to: server.ready.port,
        root: bench.files,
        directory: await bench.scratch("nginx"),
        signal: bench.signal,
      });
      running.push(proxy);
      proxies.set(offloaded(route), proxy);
      served.push({ ...(await servedBy(server, route, file)), name: offloaded(route) });
    }
  } catch (error) {
    await dispose();
    throw error;
  }
  return { served, proxies, [Symbol.asyncDispose]: dispose };
}
