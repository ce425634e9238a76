import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { KiB, type Bench } from "../../bench.ts";
import { wrk } from "../../outside-client.ts";
import { measureServing, type Served } from "../../serving.ts";
import { wrkScript } from "../../recorded-call.ts";
import { recordStream, startSluiceServer, uriOf } from "../../sluice.ts";
import { ratio } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

const mounts = 100;

/** What the number of mounts costs a call. */
export const mountsTable: Experiment = {
  id: "mounts",
  title: `One storage, and ${mounts} mounts`,
  async run(bench: Bench): Promise<Table> {
    const uri = uriOf(await bench.file(4 * KiB));
    await using one = await startSluiceServer(bench);
    await using many = await startSluiceServer(bench, { mounts });
    const names = ["one storage", `${mounts} mounts`] as const;
    const served: Served[] = [];
    const scripts = new Map<string, string>();
    for (const [at, server] of [one, many].entries()) {
      const name = names[at]!;
      const script = join(bench.files, `mounts-${at}.lua`);
      await writeFile(script, wrkScript(await recordStream(server.endpoint, uri)));
      scripts.set(name, script);
      served.push({ name, server, url: server.endpoint });
    }
    const seconds = bench.quick ? 1 : 4;
    // the difference is smaller than what the machine does in the meantime
    const turns = { ...bench, runs: bench.quick ? bench.runs : bench.runs * 3 };
    const samples = await measureServing(turns, served, async ({ name, url, server }) => {
      const before = server.cpuSeconds();
      const requestsPerSecond = await wrk(url, {
        connections: 16,
        seconds,
        script: scripts.get(name)!,
        signal: bench.signal,
      });
      const cpu = server.cpuSeconds() - before;
      return { requestsPerSecond, cpuPerRequest: cpu / (requestsPerSecond * seconds) };
    });
    const of = (name: string, key: string) => ratio(samples.get(name), samples.get(names[0]), key);
    return {
      how: "Client: wrk, 16 kept-alive connections that repeat one `resources/stream` of a 4 KiB file with a direct answer. The file is in the last mount. One storage = 1.00.",
      columns: [
        { key: "rate", title: "requests/s", digits: 2 },
        { key: "cpu", title: "CPU of a request", digits: 2 },
      ],
      rows: names.map((name) => ({
        name,
        cells: { rate: of(name, "requestsPerSecond"), cpu: of(name, "cpuPerRequest") },
      })),
      reach: [
        {
          claim: `CPU of a request, ${mounts} mounts of one storage`,
          atMost: 1.05,
          got: of(names[1], "cpuPerRequest"),
        },
      ],
    };
  },
};
