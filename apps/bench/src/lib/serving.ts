import { MiB, type Bench } from "./bench.ts";
import { interleave, type Subject } from "./interleave.ts";
import { startPeer, type Peer, type Tls } from "./peers.ts";
import type { ServerProcess } from "./server-process.ts";
import { nameOfRoute, startSluice, type SluiceRoute } from "./sluice.ts";
import type { Sample } from "./statistics.ts";

/** A running server and what to ask it for. */
export interface Served {
  readonly name: string;
  readonly server: ServerProcess;
  readonly url: string;
  /** More arguments for curl, for a request that is not a plain GET. */
  readonly curlArgs?: readonly string[];
}

/** What to start for a table. */
export interface FieldOptions {
  readonly peers: readonly Peer[];
  /** Name of the file that all of them serve. */
  readonly file: string;
  /** Ways of Sluice to serve it. */
  readonly sluice: readonly SluiceRoute[];
  readonly tls?: Tls;
}

/** The subjects of a table, running. */
export interface Field extends AsyncDisposable {
  readonly served: readonly Served[];
  /** Every subject in the order of the table, also those that are not installed. */
  readonly names: readonly string[];
  readonly absent: readonly string[];
  readonly sluiceNames: readonly string[];
}

/** Starts Sluice and its peers, each in its own process. */
export async function startField(bench: Bench, options: FieldOptions): Promise<Field> {
  const { file, tls } = options;
  const served: Served[] = [];
  const absent: string[] = [];
  const dispose = async (): Promise<void> => {
    await Promise.all(served.map(({ server }) => server[Symbol.asyncDispose]()));
  };
  const routes = bench.peersOnly ? [] : options.sluice;
  try {
    for (const peer of options.peers) {
      const server = await startPeer(peer, bench, tls ? { tls } : {});
      if (server === undefined) {
        absent.push(peer.name);
        bench.say(`  ${peer.name}: absent (not installed), its row stays empty`);
        continue;
      }
      const origin = `${tls ? "https" : "http"}://127.0.0.1:${server.ready.port}`;
      served.push({ name: peer.name, server, url: `${origin}/${file}` });
    }
    for (const route of routes)
      served.push(await startSluice(bench, route, file, tls ? { tls } : {}));
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    served,
    names: [...options.peers.map(({ name }) => name), ...routes.map(nameOfRoute)],
    absent,
    sluiceNames: routes.map(nameOfRoute),
    [Symbol.asyncDispose]: dispose,
  };
}

/** Measures what one load does to each server: the load's own figures, processor seconds and peak memory. */
export async function measureServing(
  bench: Bench,
  served: readonly Served[],
  load: (subject: Served) => Promise<Sample>,
): Promise<ReadonlyMap<string, readonly Sample[]>> {
  const subjects = served.map((subject): Subject => {
    const { name, server } = subject;
    return {
      name,
      async measure() {
        server.resetPeak();
        const before = server.cpuSeconds();
        const sample = await load(subject);
        return {
          ...sample,
          cpuSeconds: server.cpuSeconds() - before,
          peakMiB: server.peakBytes() / MiB,
        };
      },
    };
  });
  return interleave(subjects, {
    runs: bench.runs,
    onRun: (name, round, sample) =>
      bench.say(`  ${round + 1}/${bench.runs} ${name}: ${formatSample(sample)}`),
  });
}

function formatSample(sample: Sample): string {
  return Object.entries(sample)
    .map(([key, value]) => `${key} ${value > 1e6 ? value.toExponential(2) : value.toFixed(3)}`)
    .join(", ");
}
