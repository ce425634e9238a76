import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { KiB, type Bench } from "../../bench.ts";
import { wrk } from "../../outside-client.ts";
import { recordCall, wrkScript, type RecordedCall } from "../../recorded-call.ts";
import { startNodeServer, type ServerProcess } from "../../server-process.ts";
import { measureServing, type Served } from "../../serving.ts";
import { recordStream, startSluiceServer, uriOf } from "../../sluice.ts";
import { across, ratio, type Summary } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

const names = {
  sdk: "resources/read, official SDK",
  read: "Sluice, resources/read",
  stream: "Sluice, resources/stream",
  bare: "resources/stream, the SDK and 4 KiB from memory",
};

/** Whole calls for a small file: what a host asks that reads many of them. */
export const smallCalls: Experiment = {
  id: "small-calls",
  title: "Calls for a 4 KiB file",
  async run(bench: Bench): Promise<Table> {
    const file = await bench.file(4 * KiB);
    const uri = uriOf(file);
    await using official = await startNodeServer("base64-server", [bench.files], bench);
    await using sluice = await startSluiceServer(bench);
    await using bare = await startNodeServer("bare-call-server", [join(bench.files, file)], bench);
    const scripts = new Map<string, string>();
    const prepare = async (
      name: string,
      server: ServerProcess,
      record: (endpoint: string) => Promise<RecordedCall>,
    ): Promise<Served> => {
      const url = String(server.ready["endpoint"]);
      const script = join(bench.directory, `small-calls-${scripts.size}.lua`);
      await writeFile(script, wrkScript(await record(url)));
      scripts.set(name, script);
      return { name, server, url };
    };
    const read = (endpoint: string): Promise<RecordedCall> =>
      recordCall(endpoint, { method: "resources/read", params: { uri } });
    const stream = (endpoint: string): Promise<RecordedCall> => recordStream(endpoint, uri);
    const served = [
      await prepare(names.sdk, official, read),
      await prepare(names.read, sluice, read),
      await prepare(names.stream, sluice, stream),
      await prepare(names.bare, bare, stream),
    ];
    const seconds = bench.quick ? 1 : 4;
    const samples = await measureServing(bench, served, async ({ name, url, server }) => {
      const before = server.cpuSeconds();
      const requestsPerSecond = await wrk(url, {
        connections: 16,
        seconds,
        script: scripts.get(name)!,
        signal: bench.signal,
      });
      const cpu = server.cpuSeconds() - before;
      return { requestsPerSecond, cpuOfCall: (cpu * 1e6) / (requestsPerSecond * seconds) };
    });
    const of = (name: string): Summary | undefined =>
      ratio(samples.get(name), samples.get(names.sdk), "requestsPerSecond");
    return {
      how: "Client: wrk, 16 kept-alive connections that repeat one call as the official client sent it. The SDK's server and Sluice's read the same file on each call: one answers with base64 in JSON, the other with the bytes. The last row is the least that a call through the SDK takes: no check, no file, no link. The SDK's = 1.00.",
      columns: [
        { key: "rate", title: "calls/s", digits: 2, bars: true },
        { key: "cpu", title: "CPU µs of a call", digits: 0 },
      ],
      rows: Object.values(names).map((name) => ({
        name,
        cells: { rate: of(name), cpu: across(samples.get(name), "cpuOfCall") },
      })),
      reach: [
        {
          claim: "resources/stream of the SDK's resources/read",
          atLeast: 0.9,
          got: of(names.stream),
          floor: {
            got: of(names.bare),
            profile:
              "About half of the processor time is the SDK's own way from the request to the answer; the link that every answer carries takes 8 %, the write to the socket 15 %, the collection of garbage 14 %.",
          },
        },
      ],
    };
  },
};
