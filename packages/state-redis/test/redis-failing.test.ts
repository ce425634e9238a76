import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { GrantTerms } from "@sluice/state";
import { type RedisClient } from "@sluice/state-redis";
import {
  createRedisEventStore,
  createRedisStateStore,
  createRedisUploadStore,
} from "@sluice/state-redis/internal";
import { afterAll, beforeAll, describe, expect, inject, test, vi } from "vitest";
import { hasRedis, type RedisServer } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const now = 1_800_000_000_000;

function onceGrant(id: string): GrantTerms {
  const times = { issuedAt: now, expiresAt: now + 60_000 };
  return { id, principal: "alice", resource: "a", use: "once", ...times };
}

describe.runIf(hasRedis)("a Redis of several processes", () => {
  const bed = useRedis();

  test("every key has the prefix, and is forgotten some day", async () => {
    const prefix = "{forgotten}:";
    const state = createRedisStateStore({ redis: bed.redis, prefix, durable: true });
    await state.claim(onceGrant("a"), now);
    await state.claim({ ...onceGrant("b"), use: "lease" }, now);
    await state.put("r", new Uint8Array(3), { now, expiresAt: now + 1_000, owner: "ann" });
    await state.revoke({ principal: "bob" }, { now, ttlMs: 1_000 });
    const events = createRedisEventStore({ redis: bed.redis, prefix });
    const stream = { record: "r", now, expiresAt: now + 1_000, heldUntil: now };
    for (const id of ["s", "t"]) {
      await events.open(id, stream);
      await events.append(id, { epoch: 1, text: "x", now, ask: "q" });
      await events.answer(id, [{ ask: "q", answer: "1" }], now);
    }
    const last = { keepUntil: now + 500 };
    await events.append("s", { epoch: 1, text: "end", now, last });
    const uploads = createRedisUploadStore({ redis: bed.redis, prefix });
    const lease = { now, until: now + 1_000 };
    await uploads.enter("alice", "a", { ...lease, permits: 1 });
    await uploads.hold("alice", "f", { ...lease, bytes: 5, maxFiles: 1, maxBytes: 9 });
    await uploads.settle("alice", "f", { ...lease, bytes: 5 });
    const { writer } = await uploads.claim("f", lease);
    await uploads.release("f", writer);
    await uploads.release("unknown", 1);
    await uploads.drop("unknown", "f");
    const keys = await bed.redis.keys("*");
    expect(keys.length).toBeGreaterThan(18);
    for (const key of keys) {
      expect(key).toMatch(/^\{forgotten\}:/);
      expect([key, await bed.redis.pttl(key)]).toEqual([key, expect.toSatisfy(isOneHourAtMost)]);
    }
  });

  test("a server that was restarted is given its scripts again", async () => {
    const state = createRedisStateStore({
      redis: bed.redis,
      prefix: "{restarted}:",
      durable: true,
    });
    await state.claim(onceGrant("a"), now);
    await bed.redis.script("FLUSH");
    expect(await state.claim(onceGrant("a"), now)).toEqual({ outcome: "spent" });
  });

  test("nothing is redeemed while Redis hangs, and afterwards one redemption at most was", async () => {
    const state = createRedisStateStore({
      redis: bed.redis,
      prefix: "{hangs}:",
      durable: true,
      timeoutMs: 100,
    });
    // the check of Redis itself has ended, however slow the machine is
    await vi.waitFor(() => state.claim(onceGrant("before"), now), { timeout: 10_000 });
    bed.server.freeze();
    const during = await Promise.allSettled(
      Array.from({ length: 20 }, () => state.claim(onceGrant("a"), now)),
    );
    bed.server.thaw();
    for (const claim of during)
      expect(claim).toMatchObject({
        status: "rejected",
        reason: { code: "unavailable", retryAfterMs: 1_000 },
      });
    const patient = createRedisStateStore({ redis: bed.redis, prefix: "{hangs}:", durable: true });
    const after = await Promise.all([1, 2, 3].map(() => patient.claim(onceGrant("b"), now)));
    expect(after.filter(({ outcome }) => outcome === "granted")).toHaveLength(1);
    // Redis carried out calls after their deadline: one redeemed the grant, and got no bytes
    expect(await patient.claim(onceGrant("a"), now)).toEqual({ outcome: "spent" });
  });

  test("one wait covers a script that has to be sent again", async () => {
    let asked = 0;
    const slow: RedisClient = {
      call: (command) =>
        new Promise((_resolve, reject) => {
          asked += 1;
          if (command === "EVALSHA") setTimeout(() => reject(new Error("NOSCRIPT")), 20);
        }),
    };
    const state = createRedisStateStore({ redis: slow, timeoutMs: 100 });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const claim = state.claim(onceGrant("a"), now).catch((error: unknown) => error);
      await vi.advanceTimersByTimeAsync(100);
      expect(await claim).toMatchObject({ code: "unavailable" });
    } finally {
      vi.useRealTimers();
    }
    expect(asked).toBe(2);
  });

  test("a command repeated because its connection broke before the response runs once", async () => {
    const twice: RedisClient = {
      async call(...command) {
        await bed.redis.call(...command);
        return bed.redis.call(...command);
      },
    };
    const state = createRedisStateStore({ redis: twice, prefix: "{twice}:", durable: true });
    const times = { now, expiresAt: now + 1_000, owner: "ann" };
    await state.put("r", Uint8Array.of(7), times);
    expect(await state.get("r", now)).toEqual(Uint8Array.of(7));
    for (const [byte, at] of [[8, now] as const, [7, now + 1] as const])
      await expect(
        state.put("r", Uint8Array.of(byte), { ...times, now: at }),
      ).rejects.toMatchObject({ code: "already_exists" });
    // the caller of the first answer is gone: no caller may use its result
    expect(await state.claim(onceGrant("a"), now)).toEqual({ outcome: "spent" });
    expect(await state.take("r", now)).toBeUndefined();
  });

  test("a record that cannot be read is an outage, never a record that is not there", async () => {
    for (const answer of ["", "nonsense", "5", 5, Buffer.from(`${now + 1} ${now} AQ==`)]) {
      const isInspection = (lua = ""): boolean => lua.includes("maxmemory_policy");
      const redis: RedisClient = {
        async call(command, lua) {
          if (command === "EVALSHA") throw new Error("NOSCRIPT");
          return isInspection(lua) ? [String(Date.now()), "noeviction"] : answer;
        },
      };
      const state = createRedisStateStore({ redis });
      const outage = {
        code: "unavailable",
        message: expect.stringContaining("an invalid response"),
      };
      await expect(state.get("ended s", now)).rejects.toMatchObject(outage);
      await expect(state.isSessionOver("s", now)).rejects.toMatchObject(outage);
    }
  });

  test("rejects anything but a client, and a wait that has no end", () => {
    const noClient = {} as RedisClient;
    for (const timeoutMs of [0, Number.NaN, Infinity])
      expect(() => createRedisStateStore({ redis: bed.redis, timeoutMs })).toThrow(RangeError);
    expect(() => createRedisStateStore({ redis: noClient })).toThrow(TypeError);
    expect(() => createRedisEventStore({ redis: bed.redis, maxBytes: 0 })).toThrow(RangeError);
  });

  let children: readonly ChildProcess[] = [];
  beforeAll(async () => {
    children = await Promise.all([1, 2, 3].map(() => startClaiming(bed.server)));
  });
  afterAll(() => Promise.all(children.map(stop)));

  const rounds = deep ? 100 : 4;
  const claims = deep ? 1_000 : 99;
  test(`one of ${claims} redemptions in three processes is granted, in each of ${rounds} rounds`, async () => {
    for (let round = 0; round < rounds; round++) {
      const order = { id: `round ${round}`, claims: Math.ceil(claims / 3), now };
      const granted = await Promise.all(children.map((child) => grantsOf(child, order)));
      expect(granted.reduce((sum, count) => sum + count, 0)).toBe(1);
    }
  });

  test(
    "a process that ends in the middle of its claims leaves one redemption at most",
    { tags: "slow" },
    async () => {
      const order = { id: "dying", claims: 300, now };
      const granted = Promise.all(children.map((child) => grantsOf(child, order)));
      children[1]?.kill("SIGKILL");
      expect((await granted).reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(1);
      const state = createRedisStateStore({ redis: bed.redis, durable: true });
      expect(await state.claim(onceGrant(order.id), now)).toEqual({ outcome: "spent" });
    },
  );
});

interface Order {
  readonly id: string;
  readonly claims: number;
  readonly now: number;
}

async function startClaiming(server: RedisServer): Promise<ChildProcess> {
  const program = inject("programs")["packages/state-redis/test/claiming-process.ts"]!;
  const child = fork(program, [server.path]);
  await once(child, "message");
  return child;
}

/** How many claims of an order a process was granted; 0 when it died before it could say. */
function grantsOf(child: ChildProcess, order: Order): Promise<number> {
  return new Promise((resolve) => {
    const settle = (answer: unknown): void => {
      child.off("message", settle).off("exit", settle);
      resolve((answer as { granted?: number } | null)?.granted ?? 0);
    };
    child.on("message", settle).on("exit", settle);
    child.send(order);
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

function isOneHourAtMost(ms: number): boolean {
  return ms > 0 && ms <= 3_600_000;
}
