/** Servers of one file beside each other, and what one load does to each of them. */
import { GiB, MiB, type Bench } from "./bench.ts";
import { startPeer, type Tls } from "./peers.ts";
import { routeNames, startSluice, type Served, type SluiceRoute } from "./sluice.ts";
import type { Sample } from "./statistics.ts";
import { takeTurns, type MeasuredSubject, type Running } from "./table.ts";

/** What to start for a table. */
interface FieldOptions {
  readonly peers: readonly string[];
  /** Name of the file that all of them serve. */
  readonly file: string;
  /** Ways of Sluice to serve it. */
  readonly sluice: readonly SluiceRoute[];
  readonly tls?: Tls | undefined;
}

/** A peer that is not installed. */
interface Missing {
  readonly name: string;
  readonly absent: string;
}

/** Starts Sluice and its peers, each in its own process; those that are not installed keep their place. */
export async function startField(
  bench: Bench,
  running: Running,
  { peers, file, sluice, tls }: FieldOptions,
): Promise<readonly (Served | Missing)[]> {
  const field: (Served | Missing)[] = [];
  for (const name of peers) {
    const server = await startPeer(name, bench, tls);
    if (server === undefined) {
      field.push({ name, absent: "not installed" });
      bench.say(`  ${name}: absent (not installed), its row stays empty`);
      continue;
    }
    running.use(server);
    const origin = `${tls ? "https" : "http"}://127.0.0.1:${server.ready.port}`;
    field.push({ name, server, url: `${origin}/${file}` });
  }
  for (const route of bench.peersOnly ? [] : sluice) {
    const served = await startSluice(bench, route, file, { tls });
    running.use(served.server);
    field.push(served);
  }
  return field;
}

/** Names of the ways of Sluice that have rows. */
export const sluiceNames: readonly string[] = Object.values(routeNames);

/**
 * Measures what one load does to each server: the load's own figures, processor seconds, peak memory, and where the load
 * says how many `bytes` it took in how many `seconds`, those of a second and the processor seconds of a GiB.
 */
export function measureServing(
  bench: Bench,
  field: readonly (Served | Missing)[],
  load: (subject: Served) => Promise<Sample>,
  runs?: number,
): Promise<MeasuredSubject[]> {
  const subjects = field.map((subject) => ({
    name: subject.name,
    absent: "absent" in subject ? subject.absent : undefined,
    async measure() {
      const { server } = subject as Served;
      server.resetPeak();
      const before = server.cpuSeconds();
      const sample = await load(subject as Served);
      const cpuSeconds = server.cpuSeconds() - before;
      const { bytes, seconds } = sample;
      return {
        ...sample,
        ...(bytes !== undefined && {
          bytesPerSecond: bytes / seconds!,
          cpuPerGiB: (cpuSeconds * GiB) / bytes,
        }),
        cpuSeconds,
        peakMiB: server.peakBytes() / MiB,
      };
    },
  }));
  return takeTurns(bench, subjects, runs);
}
