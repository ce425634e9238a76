import { KiB, type Bench } from "../../bench.ts";
import { wrk } from "../../outside-client.ts";
import * as peers from "../../peers.ts";
import { measureServing, startField } from "../../serving.ts";
import { ratio } from "../../statistics.ts";
import { rowsOf, type Experiment, type Table } from "../../table.ts";

/** Many requests for a small file. */
export const serveSmall: Experiment = {
  id: "serve-small",
  title: "Serving a 4 KiB file over and over",
  async run(bench: Bench): Promise<Table> {
    await using field = await startField(bench, {
      peers: [peers.nginx, peers.fromMemory, peers.fromMemoryChecked, peers.send, peers.sirv],
      file: await bench.file(4 * KiB),
      sluice: ["download"],
    });
    const samples = await measureServing(bench, field.served, async ({ url }) => ({
      requestsPerSecond: await wrk(url, {
        connections: 32,
        seconds: bench.quick ? 1 : 4,
        signal: bench.signal,
      }),
    }));
    const of = (name: string, peer: peers.Peer, key: string) =>
      ratio(samples.get(name), samples.get(peer.name), key);
    const [sluice = "Sluice"] = field.sluiceNames;
    return {
      how: "Client: wrk with 32 kept-alive connections. nginx = 1.00. Sluice opens the token and checks access on each request. The bare Node server answers every request with the same bytes from memory: no Node program is faster. The other one sends the headers of Sluice, too, and looks each time whether the file has changed, as Sluice and send do: the floor of what they promise.",
      columns: [
        { key: "rate", title: "requests/s", digits: 2, bars: true },
        { key: "rateOfSend", title: "requests/s, send = 1.00", digits: 2 },
        { key: "rateOfFloor", title: "requests/s, bare Node = 1.00", digits: 2 },
        { key: "rateOfChecked", title: "requests/s, with headers and look = 1.00", digits: 2 },
      ],
      rows: rowsOf(field.names, field.absent, (name) => ({
        rate: of(name, peers.nginx, "requestsPerSecond"),
        rateOfSend: of(name, peers.send, "requestsPerSecond"),
        rateOfFloor: of(name, peers.fromMemory, "requestsPerSecond"),
        rateOfChecked: of(name, peers.fromMemoryChecked, "requestsPerSecond"),
      })),
      reach: [
        {
          claim: "Sluice of send",
          atLeast: 2,
          got: of(sluice, peers.send, "requestsPerSecond"),
          floor: {
            got: of(peers.fromMemoryChecked.name, peers.send, "requestsPerSecond"),
            profile,
          },
        },
        {
          claim: "Sluice of nginx",
          atLeast: 0.5,
          got: of(sluice, peers.nginx, "requestsPerSecond"),
          floor: {
            got: of(peers.fromMemoryChecked.name, peers.nginx, "requestsPerSecond"),
            profile,
          },
        },
      ],
    };
  },
};

const profile =
  "Of the processor time of Sluice 44 % is the write to the socket and 7 % the look at the file; Node's parser and header objects, the token and the access rule share the rest.";
