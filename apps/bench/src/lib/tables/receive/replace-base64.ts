import { KiB, MiB, type Bench } from "../../bench.ts";
import { observeClient } from "../../client-process.ts";
import { interleave, type Subject } from "../../interleave.ts";
import { startNodeServer, type ServerProcess } from "../../server-process.ts";
import { startSluiceServer, uriOf } from "../../sluice.ts";
import { across, ratio, type Sample } from "../../statistics.ts";
import type { Experiment, Reach, Row, Table } from "../../table.ts";

/** `resources/read` with base64 beside `resources/stream`, official client and server both times. */
export const replaceBase64: Experiment = {
  id: "replace-base64",
  title: "What it replaces: resources/read with base64",
  async run(bench: Bench): Promise<Table> {
    const sizes = bench.quick ? [16, 50] : [16, 50, 200, 380];
    const largest = sizes.at(-1)!;
    const beyond = 400;
    await using base64 = await startNodeServer("base64-server", [bench.files], bench);
    await using sluice = await startSluiceServer(bench);
    const warmUp = uriOf(await bench.file(4 * KiB));
    const rows: Row[] = [];
    const reach: Reach[] = [];
    for (const size of sizes) {
      const uri = uriOf(await bench.file(size * MiB));
      const read = subject(
        bench,
        `base64 ${size} MiB`,
        "base64-client",
        base64,
        [uri, warmUp],
        size,
      );
      const stream = subject(
        bench,
        `Sluice ${size} MiB`,
        "sluice-client",
        sluice,
        [uri, warmUp],
        size,
      );
      const samples = await interleave([read, stream], { runs: bench.runs });
      const of = (name: string): readonly Sample[] => samples.get(name)!;
      for (const { name } of [read, stream]) {
        rows.push({
          name,
          cells: {
            seconds: across(of(name), "seconds"),
            cpu: across(of(name), "cpuSeconds"),
            clientPeak: across(of(name), "clientPeakMiB"),
            serverPeak: across(of(name), "serverPeakMiB"),
          },
        });
      }
      if (size < 200 && size !== largest) continue;
      const faster = ratio(of(read.name), of(stream.name), "seconds");
      const cpu = ratio(of(stream.name), of(read.name), "cpuSeconds");
      reach.push(
        { claim: `${size} MiB, times as fast`, atLeast: 10, got: faster },
        { claim: `${size} MiB, CPU of both ends`, atMost: 1 / 8, got: cpu },
        growth(`${size} MiB, client growth in MiB`, of(stream.name), "clientGrowthMiB"),
        growth(`${size} MiB, server growth in MiB`, of(stream.name), "serverGrowthMiB"),
      );
    }
    if (!bench.quick) {
      const uri = uriOf(await bench.file(beyond * MiB));
      const failure = await observeClient(
        bench,
        "base64-client",
        [endpointOf(base64), uri, warmUp],
        base64,
      )
        .then(() => "worked")
        .catch(() => "fails: longer than a string can be");
      rows.push({ name: `base64 ${beyond} MiB`, absent: failure, cells: {} });
    }
    return {
      how: "Client and server of the official SDK, streamable HTTP, page cache warm. CPU is that of both ends, peaks are resident memory.",
      columns: [
        { key: "seconds", title: "seconds", digits: 2, bars: true },
        { key: "cpu", title: "CPU s", digits: 2 },
        { key: "clientPeak", title: "client peak MiB", digits: 0, bars: true },
        { key: "serverPeak", title: "server peak MiB", digits: 0 },
      ],
      rows,
      reach,
    };
  },
};

function subject(
  bench: Bench,
  name: string,
  program: string,
  server: ServerProcess,
  args: readonly string[],
  size: number,
): Subject {
  return {
    name,
    async measure() {
      const seen = await observeClient(bench, program, [endpointOf(server), ...args], server);
      if (seen.bytes !== size * MiB) throw new Error(`bench: ${name}: got ${seen.bytes} bytes`);
      bench.say(`  ${name}: ${seen.seconds.toFixed(2)} s`);
      return {
        seconds: seen.seconds,
        cpuSeconds: seen.cpuSeconds + seen.serverCpuSeconds,
        clientPeakMiB: seen.client.peakMiB,
        serverPeakMiB: seen.server.peakMiB,
        clientGrowthMiB: seen.client.peakMiB - seen.client.idleMiB,
        serverGrowthMiB: seen.server.peakMiB - seen.server.idleMiB,
      };
    },
  };
}

const endpointOf = (server: ServerProcess): string => String(server.ready["endpoint"]);

const growth = (claim: string, samples: readonly Sample[], key: string): Reach => ({
  claim,
  atMost: 16,
  got: across(samples, key),
});
