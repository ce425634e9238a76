import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import type { Bench } from "../../bench.ts";
import { startSluiceServer, uriOf } from "../../sluice.ts";
import { quantile, summarise, type Summary } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

/** Times of a refusal: what access rules hide must not be told from what is missing. */
export const hidden: Experiment = {
  id: "hidden",
  title: "Hidden and missing resources",
  async run(bench: Bench): Promise<Table> {
    const file = await bench.file(1_024);
    await copyFile(join(bench.files, file), join(bench.files, "secret"));
    await using server = await startSluiceServer(bench);
    const count = bench.quick ? 500 : 5_000;
    const keys = { hidden: "secret", "may be read": file };
    const rows: { name: string; cells: { differs: Summary | undefined } }[] = [];
    for (const [name, key] of Object.entries(keys)) {
      const runs: number[] = [];
      while (runs.length < bench.runs)
        runs.push(await differenceOf(server.endpoint, [key, "absent"], count, bench.signal));
      rows.push({ name, cells: { differs: summarise(runs) } });
    }
    return {
      how: `Median time of ${count} \`resources/read\`, asked in turn with as many of a missing resource: by how many percent it differs from theirs.`,
      columns: [{ key: "differs", title: "%", digits: 2 }],
      rows,
      reach: [{ claim: "hidden from missing, %", atMost: 5, got: rows[0]?.cells.differs }],
    };
  },
};

/** By how many percent the median times of two resources differ. */
async function differenceOf(
  endpoint: string,
  keys: readonly [string, string],
  count: number,
  signal: AbortSignal,
): Promise<number> {
  const times = keys.map((): number[] => []);
  for (let n = -count / 10; n < count; n += 1) {
    signal.throwIfAborted();
    // the second of two profits from what the first left warm
    for (const at of Math.random() < 0.5 ? [0, 1] : [1, 0]) {
      const begun = performance.now();
      await read(endpoint, uriOf(keys[at]!));
      if (n >= 0) times[at]!.push(performance.now() - begun);
    }
  }
  const [one, other] = times.map((each) =>
    quantile(
      each.toSorted((a, b) => a - b),
      0.5,
    ),
  );
  return Math.abs(one! / other! - 1) * 100;
}

async function read(endpoint: string, uri: string): Promise<void> {
  const response = await fetch(endpoint, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2025-11-25",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri } }),
  });
  await response.arrayBuffer();
}
