import { GiB, MiB, type Bench } from "../../bench.ts";
import { runToEnd } from "../../child.ts";
import { curl } from "../../outside-client.ts";
import * as peers from "../../peers.ts";
import { measureServing, startField } from "../../serving.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import { rowsOf, type Experiment, type Reach, type Table } from "../../table.ts";

const others = [peers.send, peers.expressStatic, peers.sirv, peers.hono];

/** One large file to curl, which throws it away. */
export const serveLarge: Experiment = {
  id: "serve-large",
  title: "Serving one 1 GiB file",
  run: (bench) => serve(bench, [peers.nginx, peers.pump, peers.sendTuned, ...others]),
};

/** The same over TLS. */
export const serveTls: Experiment = {
  id: "serve-tls",
  title: "Serving one 1 GiB file over HTTPS",
  async run(bench) {
    const tls = await peers.createCertificate(bench, (command, args) =>
      runToEnd(command, args, bench),
    );
    return serve(bench, [peers.nginx, peers.pump, peers.send], tls);
  },
};

async function serve(
  bench: Bench,
  against: readonly peers.Peer[],
  tls?: peers.Tls,
): Promise<Table> {
  const bytes = bench.quick ? 256 * MiB : GiB;
  await using field = await startField(bench, {
    peers: against,
    file: await bench.file(bytes),
    sluice: ["download", "direct"],
    ...(tls && { tls }),
  });
  const samples = await measureServing(bench, field.served, async ({ url, curlArgs = [] }) => {
    const seconds = await curl(url, bytes, { signal: bench.signal, args: curlArgs });
    return { bytesPerSecond: bytes / seconds };
  });
  const of = (name: string, peer: peers.Peer, key: string): Summary | undefined =>
    ratio(samples.get(name), samples.get(peer.name), key);
  const reach = field.sluiceNames.flatMap((name): Reach[] => [
    {
      claim: `${name} of nginx`,
      atLeast: 1,
      got: of(name, peers.nginx, "bytesPerSecond"),
      floor: {
        got: of(peers.pump.name, peers.nginx, "bytesPerSecond"),
        profile: tls ? encrypted : copied,
      },
    },
    ...(tls ? [] : reachOfPlain(name, of)),
  ]);
  return {
    how: "Client: curl to the void. Throughput, and CPU time of the server process; nginx = 1.00.",
    columns: [
      { key: "throughput", title: "throughput", digits: 2, bars: true },
      { key: "cpu", title: "CPU", digits: 2 },
      { key: "cpuPerGiB", title: "CPU s/GiB", digits: 2, bars: true },
    ],
    rows: rowsOf(field.names, field.absent, (name) => ({
      throughput: of(name, peers.nginx, "bytesPerSecond"),
      cpu: of(name, peers.nginx, "cpuSeconds"),
      cpuPerGiB: across(samples.get(name), "cpuSeconds", GiB / bytes),
    })),
    reach,
  };
}

const encrypted =
  "Encryption and the kernel take two thirds of the bare program's samples and three fifths of Sluice's; the rest is V8. nginx encrypts with the OpenSSL of the system, Node with its own.";

const copied =
  "nginx has the kernel send its page cache; Node has no such call, so that each byte is copied into the process and out of it. What that costs beside sendfile differs between machines.";

function reachOfPlain(
  name: string,
  of: (name: string, peer: peers.Peer, key: string) => Summary | undefined,
): Reach[] {
  const faster = (peer: peers.Peer, atLeast: number): Reach => ({
    claim: `${name} of ${peer.name}`,
    atLeast,
    got: of(name, peer, "bytesPerSecond"),
  });
  return [
    {
      claim: `${name} CPU of nginx`,
      atMost: 1.15,
      got: of(name, peers.nginx, "cpuSeconds"),
      floor: {
        got: of(peers.pump.name, peers.nginx, "cpuSeconds"),
        profile: copied,
      },
    },
    ...others.map((peer) => faster(peer, 3)),
    faster(peers.sendTuned, 1.25),
  ];
}
