import { GiB, MiB, type Bench } from "../../bench.ts";
import * as peers from "../../peers.ts";
import { startField, type Served } from "../../serving.ts";
import { createStalledReaders } from "../../stalled-readers.ts";
import { summarise, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const counts = [100, 256];

/** Readers that ask for a large file and then take nothing. */
export const stalled: Experiment = {
  id: "stalled",
  title: "Stalled readers",
  async run(bench: Bench): Promise<Table> {
    await using field = await startField(bench, {
      peers: [peers.nginx, peers.pump, peers.send],
      file: await bench.sparseFile(GiB),
      sluice: ["download"],
    });
    const idle = new Map(field.served.map(({ name, server }) => [name, server.rssBytes()]));
    const perReader = new Map<string, Summary | undefined>();
    for (const count of counts) {
      for (const subject of field.served) {
        const grown =
          (await rssWhileStalled(subject, count, bench.signal)) - idle.get(subject.name)!;
        const mib = grown / MiB / count;
        bench.say(`  ${subject.name}: ${count} readers, ${mib.toFixed(2)} MiB each`);
        perReader.set(`${subject.name} ${count}`, summarise([mib]));
      }
    }
    return {
      how: "Readers on the same machine that ask for 1 GiB and then read nothing: growth of the server's resident memory over idle, by reader.",
      columns: counts.map((count) => ({
        key: String(count),
        title: `${count} readers, MiB each`,
        digits: 2,
        bars: true,
      })),
      rows: rowsOf(field.names, field.absent, (name) =>
        Object.fromEntries(counts.map((count) => [count, perReader.get(`${name} ${count}`)])),
      ),
      reach: counts.map((count) => ({
        claim: `${count} stalled readers, MiB each`,
        atMost: 1.5,
        got: perReader.get(`${field.sluiceNames[0]} ${count}`),
      })),
    };
  },
};

/** Resident memory of the server once `count` readers have stalled. */
async function rssWhileStalled(
  { server, url }: Served,
  count: number,
  signal: AbortSignal,
): Promise<number> {
  await using readers = createStalledReaders(url, signal);
  await readers.open(count);
  return server.rssBytes();
}
