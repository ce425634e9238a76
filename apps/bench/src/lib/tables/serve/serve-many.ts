import { MiB, type Bench } from "../../bench.ts";
import { curl } from "../../outside-client.ts";
import * as peers from "../../peers.ts";
import { measureServing, startField } from "../../serving.ts";
import { across, ratio } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

const streams = 64;

/** Many streams at once. */
export const serveMany: Experiment = {
  id: "serve-many",
  title: "64 concurrent streams of 16 MiB",
  async run(bench: Bench): Promise<Table> {
    const bytes = (bench.quick ? 4 : 16) * MiB;
    await using field = await startField(bench, {
      peers: [peers.nginx, peers.pump, peers.send],
      file: await bench.file(bytes),
      sluice: ["download", "direct"],
    });
    const samples = await measureServing(bench, field.served, async ({ url, curlArgs = [] }) => {
      // the glob makes 64 transfers of one address; a fragment never leaves curl
      const seconds = await curl(`${url}#[1-${streams}]`, streams * bytes, {
        signal: bench.signal,
        parallel: streams,
        args: curlArgs,
      });
      return { bytesPerSecond: (streams * bytes) / seconds };
    });
    const of = (name: string, peer: peers.Peer, key: string) =>
      ratio(samples.get(name), samples.get(peer.name), key);
    return {
      how: `Client: one curl with ${streams} parallel transfers to the void. nginx = 1.00; peak is the server's resident memory at its highest.`,
      columns: [
        { key: "throughput", title: "throughput", digits: 2, bars: true },
        { key: "cpu", title: "CPU", digits: 2 },
        { key: "peak", title: "peak MiB", digits: 0, bars: true },
      ],
      rows: rowsOf(field.names, field.absent, (name) => ({
        throughput: of(name, peers.nginx, "bytesPerSecond"),
        cpu: of(name, peers.nginx, "cpuSeconds"),
        peak: across(samples.get(name), "peakMiB"),
      })),
      reach: field.sluiceNames.flatMap((name) => [
        {
          claim: `${name} of nginx`,
          atLeast: 0.9,
          got: of(name, peers.nginx, "bytesPerSecond"),
          floor: {
            got: of(peers.pump.name, peers.nginx, "bytesPerSecond"),
            profile: "The bare program needs three times nginx's processor time already.",
          },
        },
        {
          claim: `${name} of send`,
          atLeast: 1.8,
          got: of(name, peers.send, "bytesPerSecond"),
          floor: {
            got: of(peers.pump.name, peers.send, "bytesPerSecond"),
            profile:
              "Half of Sluice's samples are the kernel's, which sends and copies; a quarter are V8's, for 64 requests that begin at once.",
          },
        },
        {
          claim: `${name} peak MiB`,
          atMost: 128,
          got: across(samples.get(name), "peakMiB"),
          floor: {
            got: across(samples.get(peers.pump.name), "peakMiB"),
            profile:
              "A Node process has about 70 MiB before the first request, and 16 MiB are the buffers of all streams.",
          },
        },
      ]),
    };
  },
};
