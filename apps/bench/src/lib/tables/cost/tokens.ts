import { createKeyRing, createSealer, formatKey, generateKey, resourceTag } from "@sluice/core";
import { createMemoryStateStore, createTokenStore } from "@sluice/state";
import type { Bench } from "../../bench.ts";
import { quantile, summarise } from "../../statistics.ts";
import type { Experiment, Table } from "../../table.ts";

/** What download tokens cost. */
export const tokens: Experiment = {
  id: "tokens",
  title: "Download tokens",
  async run(bench: Bench): Promise<Table> {
    const server = {
      keys: createKeyRing(formatKey(generateKey())),
      audience: "https://mcp.example.com/mcp",
    };
    const sealer = createSealer(server);
    const count = bench.quick ? 2_000 : 20_000;
    // one caller gets all of them
    const state = createMemoryStateStore({ maxRecordsPerOwner: 2 * count });
    const stored = createTokenStore({ ...server, state });
    const principal = { issuer: "https://id.example.com", subject: "reader", clientId: "bench" };
    const terms = { key: "reports/2026/all.bin", principal, use: "lease" } as const;
    const seal = (): string => sealer.seal("download", terms).token;
    const token = seal();
    const { token: kept } = await stored.issue("download", terms);
    const mintAndRedeem = async (): Promise<void> => {
      const grant = sealer.unseal("download", seal());
      if (!grant.matchesPrincipal(principal)) throw new Error("bench: a token lost its holder");
      const { id, use, issuedAt, expiresAt, key } = grant;
      const resource = resourceTag(key);
      await state.claim({ id, principal: "", resource, use, issuedAt, expiresAt }, Date.now());
    };
    const steps = {
      seal,
      unseal: () => sealer.unseal("download", token),
      "issue a stored one, in memory": () => stored.issue("download", terms),
      "open a stored one, in memory": () => stored.open("download", kept),
      "seal, unseal, match the holder and claim": mintAndRedeem,
    };
    const rows = [];
    for (const [name, step] of Object.entries(steps)) {
      const sorted = await timesOf(step, count);
      const p50 = summarise([quantile(sorted, 0.5)]);
      rows.push({ name, cells: { p50, p99: summarise([quantile(sorted, 0.99)]) } });
    }
    await state.close?.();
    return {
      how: `Microseconds of one step after another in one process, ${count} times.`,
      columns: [
        { key: "p50", title: "p50 µs", digits: 1 },
        { key: "p99", title: "p99 µs", digits: 1 },
      ],
      rows,
      reach: [{ claim: "mint and redeem, p99 in µs", atMost: 1000, got: rows.at(-1)?.cells.p99 }],
    };
  },
};

/** Microseconds of each of `count` runs of `step`, ascending, after a warm-up. */
async function timesOf(step: () => unknown, count: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (let i = 0; i < count + 1000; i++) {
    const startedAt = performance.now();
    await step();
    if (i >= 1000) times.push((performance.now() - startedAt) * 1000);
  }
  return times.toSorted((a, b) => a - b);
}
