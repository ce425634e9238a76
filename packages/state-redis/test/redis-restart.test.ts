import { clockSkewMs } from "@sluice/core/internal";
import type { GrantTerms, StateStore } from "@sluice/state";
import { type RedisClient } from "@sluice/state-redis";
import { createRedisStateStore } from "@sluice/state-redis/internal";
import { describe, expect, test } from "vitest";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

const now = 1_800_000_000_000;
const info = "redis.call('INFO', 'server')";

function grant(id: string, other: Partial<GrantTerms> = {}): GrantTerms {
  const terms = { id, principal: "alice", resource: "a", use: "once" } as const;
  return { ...terms, issuedAt: now, expiresAt: now + 600_000, ...other };
}

describe.runIf(hasRedis)("a Redis that was restarted", () => {
  const bed = useRedis();
  let spaces = 0;

  /** A store in a Redis that began this many seconds ago, with changes to its scripts. */
  function storeIn(
    uptime: () => number,
    changes: readonly (readonly [string, string])[] = [],
    timeoutMs = 2_000,
  ) {
    const aged: RedisClient = {
      async call(command, ...args) {
        if (command === "EVALSHA") throw new Error("NOSCRIPT");
        let [lua = "", ...rest] = args;
        const answer = `'# Server\\r\\nuptime_in_seconds:${uptime()}\\r\\nuptime_in_days:0\\r\\n'`;
        for (const [from, to] of [[info, answer] as const, ...changes])
          lua = lua.replace(from, () => to);
        return bed.redis.call(command, lua, ...rest);
      },
    };
    return createRedisStateStore({ redis: aged, prefix: `{aged ${(spaces += 1)}}:`, timeoutMs });
  }

  /** Rules of a store that lost everything nine seconds ago, when it was restarted. */
  const rules: Readonly<Record<string, (store: StateStore) => Promise<void>>> = {
    async "no grant is redeemed that may have been redeemed before"(store) {
      for (const use of ["window", "once", "lease"] as const)
        expect(await store.claim(grant(use, { use, issuedAt: now - 1_001 }), now)).toEqual({
          outcome: "spent",
        });
    },
    async "no record is taken that may have been taken before"(store) {
      await store.put("r", new Uint8Array(1), {
        now: now - 1_001,
        expiresAt: now + 9_000,
        owner: "ann",
      });
      expect(await store.take("r", now)).toBeUndefined();
    },
  };

  const flaws: Readonly<Record<string, readonly [from: string, to: string]>> = {
    "no grant is redeemed that may have been redeemed before": [
      "if issuedAt < since then return 'spent' end",
      "",
    ],
    "no record is taken that may have been taken before": [
      "< since then return false end",
      "< 0 then return false end",
    ],
  };

  test.each(Object.entries(rules))(
    "%s, and a script without the check is caught",
    async (rule, run) => {
      await run(storeIn(() => 9));
      await expect(run(storeIn(() => 9, [flaws[rule]!]))).rejects.toThrow("expected");
      // the margin for clocks that differ
      await expect(run(storeIn(() => 9, [["+ tonumber(margin)", ""]]))).rejects.toThrow("expected");
    },
  );

  test("redeems grants from after the restart as ever, once", async () => {
    const store = storeIn(() => 9);
    const late = grant("late", { issuedAt: now - 1_000 });
    expect(await store.claim(late, now)).toMatchObject({ outcome: "granted" });
    expect(await store.claim(late, now)).toEqual({ outcome: "spent" });
    await store.put("r", Uint8Array.of(7), {
      now: now - 1_000,
      expiresAt: now + 9_000,
      owner: "ann",
    });
    expect(await store.take("r", now)).toEqual(Uint8Array.of(7));
    expect(await store.take("r", now)).toBeUndefined();
  });

  test("nothing is redeemed until clocks that differ agree that it was before, and nothing is used up", async () => {
    let uptime = 2;
    const store = storeIn(() => uptime);
    await store.put("r", Uint8Array.of(7), {
      now: now + 6_000,
      expiresAt: now + 9_000,
      owner: "ann",
    });
    const early = { code: "unavailable", retryAfterMs: clockSkewMs + 2_000 + 1_000 - 2_000 };
    await expect(store.claim(grant("a"), now)).rejects.toMatchObject(early);
    await expect(store.take("r", now)).rejects.toMatchObject(early);
    // an ended session has ended all the same
    const over = grant("over", { expiresAt: now - clockSkewMs });
    expect(await store.claim(over, now)).toEqual({ outcome: "expired" });
    uptime = 8;
    const fresh = grant("a", { issuedAt: now + 6_000 });
    expect(await store.claim(fresh, now + 6_000)).toMatchObject({ outcome: "granted" });
    expect(await store.take("r", now + 6_000)).toEqual(Uint8Array.of(7));
  });

  test("is as old as it says, even to a caller that asked ten seconds before it answered", async () => {
    const store = storeIn(() => 16, [], 10_000);
    const startedAt = now - 6_000;
    const before = grant("before", { issuedAt: startedAt - 1_000 });
    expect(await store.claim(before, now)).toEqual({ outcome: "spent" });
    await store.put("r", new Uint8Array(1), {
      now: startedAt - 1_000,
      expiresAt: now + 9_000,
      owner: "ann",
    });
    expect(await store.take("r", now)).toBeUndefined();
  });

  test("redeems earlier grants if it remembers, unless they were redeemed", async () => {
    const aged = createRedisStateStore({ redis: bed.redis, prefix: "{durable}:", durable: true });
    expect(await aged.claim(grant("a"), now)).toMatchObject({ outcome: "granted" });
    expect(await aged.claim(grant("a"), now)).toEqual({ outcome: "spent" });
  });

  test("is seen to be new by its own statement", async () => {
    const store = createRedisStateStore({ redis: bed.redis, prefix: "{new}:" });
    // older than this Redis, however slow the machine is
    const old = grant("a", { issuedAt: now - 3_600_000 });
    const outcome = await store.claim(old, now).catch((error: { code: string }) => error.code);
    expect(["unavailable", { outcome: "spent" }]).toContainEqual(outcome);
  });
});
