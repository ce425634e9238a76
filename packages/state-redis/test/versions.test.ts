import { createRedisStores } from "@sluice/state-redis";
import { describe, expect, test } from "vitest";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

const minute = 60_000;
const grant = { id: "g", principal: "ann", resource: "r", use: "once" } as const;

describe.runIf(hasRedis)("two versions of the format in one Redis", () => {
  const bed = useRedis();

  test("share nothing: what one keeps the other neither reads nor changes", async () => {
    const { redis } = bed;
    const { state, uploads, events } = createRedisStores({ redis, durable: true });
    const now = Date.now();
    const terms = { now, expiresAt: now + minute, owner: "ann" };
    const lease = { now, until: now + minute };
    const claimed = { ...grant, issuedAt: now, expiresAt: now + minute };
    const stream = { record: "{}", now, expiresAt: now + minute, heldUntil: now };
    const keep = async () => {
      await state.put("record", new Uint8Array([1]), terms);
      await state.bindSession("session", terms);
      await state.endSession("session", now);
      const claim = await state.claim(claimed, now);
      const hasEntered = await uploads.enter("ann", "permit", { ...lease, permits: 1 });
      await events.open("stream", stream);
      return { outcome: claim.outcome, hasEntered };
    };
    const first = await keep();

    const ours = await redis.keys("*");
    expect(ours.filter((key) => !key.startsWith("{sluice}:1:"))).toEqual([]);
    const theirs = ours.map((key) => key.replace("{sluice}:1:", "{sluice}:2:"));
    for (const [n, key] of ours.entries()) await redis.rename(key, theirs[n]!);
    const dumps = () => Promise.all(theirs.map((key) => redis.dumpBuffer(key)));
    const before = await dumps();

    expect(await state.get("record", now)).toBeUndefined();
    expect(await state.isSessionOver("session", now)).toBe(false);
    expect(await events.read("stream", { after: 0, now })).toBeUndefined();
    expect(await keep()).toEqual(first);
    await state.revoke({ principal: "ann" }, { now, ttlMs: minute });
    await state.take("record", now);
    await events.drop("stream");
    await uploads.leave("ann", "permit");
    expect(await dumps()).toEqual(before);
  });
});
