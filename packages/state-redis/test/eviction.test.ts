import type { GrantTerms } from "@sluice/state";
import { type RedisClient } from "@sluice/state-redis";
import {
  checkRedis,
  createRedisEventStore,
  createRedisStateStore,
  createRedisUploadStore,
} from "@sluice/state-redis/internal";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

const now = 1_800_000_000_000;
const grant: GrantTerms = {
  id: "grant",
  principal: "alice",
  resource: "a",
  use: "once",
  issuedAt: now,
  expiresAt: now + 60_000,
};

describe.runIf(hasRedis)("a Redis that may evict keys", () => {
  const bed = useRedis();
  const policies = ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"];
  const refusal = { code: "internal", message: expect.stringContaining("set it to noeviction") };

  const setPolicy = (policy: string) => bed.redis.config("SET", "maxmemory-policy", policy);
  afterEach(async () => {
    vi.useRealTimers();
    await setPolicy("noeviction");
  });
  afterAll(() => bed.redis.config("SET", "maxmemory", "0"));

  test.each(policies)("%s is refused, by every store and at the start", async (policy) => {
    await setPolicy(policy);
    const options = { redis: bed.redis, prefix: `{${policy}}:`, durable: true };
    const lease = { now, until: now + 1_000 };
    await expect(checkRedis(options)).rejects.toMatchObject(refusal);
    const state = createRedisStateStore(options);
    for (const call of [
      () => state.claim(grant, now),
      () => state.get("a", now),
      () => state.isSessionOver("s", now),
      () => state.revoke({ principal: "alice" }, { now, ttlMs: 1_000 }),
    ])
      await expect(call()).rejects.toMatchObject(refusal);
    const events = createRedisEventStore(options);
    await expect(events.read("s", { after: 0, now })).rejects.toMatchObject(refusal);
    await expect(createRedisUploadStore(options).claim("f", lease)).rejects.toMatchObject(refusal);
    // once it is set right, nothing needs a restart
    await setPolicy("noeviction");
    await checkRedis(options);
    expect(await state.claim(grant, now)).toMatchObject({ outcome: "granted" });
  });

  test("a policy that cannot be read is refused", async () => {
    const silent: RedisClient = {
      async call(command, ...args) {
        if (command === "EVALSHA") throw new Error("NOSCRIPT");
        const [lua = "", ...rest] = args;
        return bed.redis.call(command, lua.replace("redis.call('INFO', 'memory')", "''"), ...rest);
      },
    };
    await expect(checkRedis({ redis: silent })).rejects.toMatchObject(refusal);
  });

  test("a policy that changes is noticed within a minute", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    const state = createRedisStateStore({ redis: bed.redis, prefix: "{later}:", durable: true });
    expect(await state.claim(grant, now)).toMatchObject({ outcome: "granted" });
    await setPolicy("allkeys-lru");
    vi.advanceTimersByTime(60_001);
    await expect(state.claim(grant, now)).rejects.toMatchObject(refusal);
  });

  test("negative control: with allowEviction it is used, and gives a once link out twice", async () => {
    const options = { redis: bed.redis, prefix: "{evicting}:", durable: true, allowEviction: true };
    const state = createRedisStateStore(options);
    expect(await state.claim(grant, now)).toMatchObject({ outcome: "granted" });
    expect(await state.claim(grant, now)).toEqual({ outcome: "spent" });
    await setPolicy("allkeys-random");
    await bed.redis.config("SET", "maxmemory", "1");
    for (let n = 0; (await bed.redis.exists("{evicting}:1:grant:grant")) && n < 100; n++)
      await bed.redis.set(`filler ${n}`, "x").catch(() => {});
    await bed.redis.config("SET", "maxmemory", "0");
    expect(await state.claim(grant, now)).toMatchObject({ outcome: "granted" });
  });
});
