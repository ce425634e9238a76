import { AsyncLocalStorage } from "node:async_hooks";
import { fork } from "node:child_process";
import { once } from "node:events";
import { clockSkewMs } from "@sluice/core/internal";
import type { EventStore, GrantTerms, StateStore, UploadStore } from "@sluice/state";
import { type RedisClient } from "@sluice/state-redis";
import {
  checkRedis,
  createRedisEventStore,
  createRedisStateStore,
  createRedisUploadStore,
} from "@sluice/state-redis/internal";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { useRedis } from "./redis-bed.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const tenMinutesMs = 600_000;
const ttlMs = 3_600_000;

/** The stores of a process whose clock differs from that of Redis. */
interface Process {
  /** The time, as it takes it to be. */
  readonly now: () => number;
  readonly state: StateStore;
  readonly events: EventStore;
  readonly uploads: UploadStore;
}

interface Fleet {
  readonly ahead: Process;
  readonly behind: Process;
  /** Its clock is that of Redis. */
  readonly exact: Process;
  readonly prefix: string;
}

/** A grant that was made now, by the clock of Redis. */
function grant(other: Partial<GrantTerms> = {}): GrantTerms {
  const times = { issuedAt: Date.now(), expiresAt: Date.now() + tenMinutesMs + 60_000 };
  return { id: "grant", principal: "alice", resource: "a.bin", use: "once", ...times, ...other };
}

describe.runIf(hasRedis)("processes whose clocks are ten minutes off that of Redis", () => {
  const bed = useRedis();
  const offset = new AsyncLocalStorage<number>();
  const warnings: string[] = [];
  let spaces = 0;

  beforeEach(() => {
    const realNow = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => realNow() + (offset.getStore() ?? 0));
  });
  afterEach(() => {
    vi.restoreAllMocks();
    warnings.length = 0;
  });

  /** Its calls run in a process whose clock is ahead by this much. */
  function inProcess<Store extends object>(store: Store, aheadMs: number): Store {
    return new Proxy(store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) =>
          offset.run(aheadMs, () => Reflect.apply(member, target, args) as unknown);
      },
    });
  }

  function createFleet(redis: RedisClient = bed.redis): Fleet {
    const prefix = `{skewed ${(spaces += 1)}}:`;
    const process = (aheadMs: number): Process => {
      const options = { redis, prefix, onWarning: (text: string) => void warnings.push(text) };
      return {
        now: () => Date.now() + aheadMs,
        state: inProcess(createRedisStateStore({ ...options, durable: true }), aheadMs),
        events: inProcess(createRedisEventStore(options), aheadMs),
        uploads: inProcess(createRedisUploadStore(options), aheadMs),
      };
    };
    const [ahead, behind, exact] = [tenMinutesMs, -tenMinutesMs, 0].map(process);
    return { ahead: ahead!, behind: behind!, exact: exact!, prefix };
  }

  /** Rules that hold whatever the clock of a process says. */
  const rules: Readonly<Record<string, (fleet: Fleet) => Promise<void>>> = {
    async "a claim is kept for as long as the grant can live"({ ahead, behind, prefix }) {
      const made = grant();
      const claimed = { outcome: "granted", continued: false };
      expect(await ahead.state.claim(made, ahead.now())).toEqual(claimed);
      const life = await bed.redis.pttl(`${prefix}1:grant:grant`);
      expect(life).toBeGreaterThan(made.expiresAt - Date.now() + 2 * clockSkewMs);
      expect(await behind.state.claim(made, behind.now())).toEqual({ outcome: "spent" });
    },
    async "a grant expires for all of them at once"({ behind }) {
      const over = grant({ expiresAt: Date.now() - 2 * clockSkewMs });
      expect(await behind.state.claim(over, behind.now())).toEqual({ outcome: "expired" });
    },
    async "a lease ends ten minutes after it was opened"({ ahead, prefix }) {
      await ahead.state.claim(grant({ use: "lease", expiresAt: Date.now() + ttlMs }), ahead.now());
      const endsAt = Number(await bed.redis.hget(`${prefix}1:grant:grant`, "endsAt"));
      expect(Math.abs(endsAt - Date.now() - tenMinutesMs)).toBeLessThan(clockSkewMs + 60_000);
    },
    async "a revocation by a process that is behind withdraws what was made so far"(fleet) {
      const { behind, exact } = fleet;
      const made = grant({ issuedAt: Date.now() - 60_000 });
      await behind.state.revoke({ principal: "alice" }, { now: behind.now(), ttlMs });
      expect(await exact.state.claim(made, exact.now())).toEqual({ outcome: "revoked" });
    },
    async "a revocation reaches what a process made that is ahead"({ ahead, exact }) {
      // it has been seen at the store before
      await ahead.state.claim(grant({ id: "other" }), ahead.now());
      const made = grant({ issuedAt: ahead.now(), expiresAt: ahead.now() + 60_000 });
      await exact.state.revoke({ resource: "a.bin" }, { now: exact.now() + clockSkewMs, ttlMs });
      expect(await ahead.state.claim(made, ahead.now())).toEqual({ outcome: "revoked" });
    },
    async "a record lives as long as its maker said, for all of them"({ ahead, behind, exact }) {
      for (const [id, { state, now }] of [["b", behind] as const, ["a", ahead] as const])
        await state.put(id, Uint8Array.of(7), {
          now: now(),
          expiresAt: now() + 60_000,
          owner: "ann",
        });
      for (const { state, now } of [ahead, behind, exact])
        for (const id of ["a", "b"]) expect(await state.get(id, now())).toEqual(Uint8Array.of(7));
      expect(await exact.state.get("a", Date.now() + 120_000)).toBeUndefined();
      expect(await ahead.state.take("b", ahead.now())).toEqual(Uint8Array.of(7));
    },
    async "the end of a session is known to all of them"({ ahead, behind, exact }) {
      const now = behind.now();
      await behind.state.bindSession("s", { now, expiresAt: now + 60_000, owner: "ann" });
      await exact.state.endSession("s", exact.now());
      for (const { state, now: time } of [ahead, behind, exact])
        expect(await state.isSessionOver("s", time())).toBe(true);
    },
    async "a file has one writer"({ ahead, behind }) {
      const lease = ({ now }: Process) => ({ now: now(), until: now() + 30_000 });
      expect(await behind.uploads.claim("f", lease(behind))).toMatchObject({ outcome: "held" });
      expect(await ahead.uploads.claim("f", lease(ahead))).toMatchObject({ outcome: "waiting" });
    },
    async "a permit and the bytes of an owner count for all of them"({ ahead, behind }) {
      const lease = ({ now }: Process) => ({ now: now(), until: now() + 30_000 });
      expect(await behind.uploads.enter("ann", "a", { ...lease(behind), permits: 1 })).toBe(true);
      expect(await ahead.uploads.enter("ann", "b", { ...lease(ahead), permits: 1 })).toBe(false);
      const file = { bytes: 9, maxFiles: 1, maxBytes: 9 };
      expect(await behind.uploads.hold("ann", "f", { ...lease(behind), ...file })).toBe(true);
      expect(await ahead.uploads.hold("ann", "g", { ...lease(ahead), ...file })).toBe(false);
    },
    async "the time of uploads is that of Redis"({ ahead, behind, exact }) {
      for (const { uploads } of [ahead, behind, exact])
        expect(Math.abs((await uploads.now!()) - Date.now())).toBeLessThan(2 * clockSkewMs);
    },
    async "a stream of events has one writer, and lasts for its time"({ ahead, behind }) {
      const now = behind.now();
      const times = { now, heldUntil: now + 30_000, expiresAt: now + 60_000 };
      await behind.events.open("s", { record: "r", ...times });
      const later = ahead.now();
      expect(await ahead.events.claim("s", { now: later, heldUntil: later + 1 })).toBeUndefined();
      expect(await ahead.events.read("s", { after: 0, now: later })).toMatchObject({ record: "r" });
    },
  };

  /** Scripts that take the time of the caller as it is: every rule must notice. */
  const trusting: RedisClient = {
    async call(command, ...args) {
      if (command === "EVALSHA") throw new Error("NOSCRIPT");
      const [lua = "", ...rest] = args;
      const from = "then shift = -ahead end";
      expect(lua).toContain(from);
      return bed.redis.call(command, lua.replace(from, "then end"), ...rest);
    },
  };

  test.each(Object.entries(rules))(
    "%s, and scripts that trust the clock of a caller break that",
    async (_rule, run) => {
      await run(createFleet());
      await expect(run(createFleet(trusting))).rejects.toThrow("expected");
    },
  );

  test("each store says once by how much the clocks differ, and nothing about clocks that agree", async () => {
    const { ahead, behind, exact } = createFleet();
    for (const { state, now } of [exact, ahead, behind, ahead, behind])
      await state.claim(grant({ use: "window" }), now());
    expect(warnings).toEqual([
      expect.stringContaining("600 s ahead of that of Redis, and 5 s are allowed"),
      expect.stringContaining("600 s behind that of Redis, and 5 s are allowed"),
    ]);
  });

  const yearMs = 365 * 86_400_000;
  test.each([
    ["a year ahead", yearMs],
    ["a year behind", -yearMs],
    ["16 minutes ahead", 960_000],
  ])("a process that is %s is refused, and revocations reach no further", async (_, aheadMs) => {
    const prefix = `{skewed ${(spaces += 1)}}:`;
    const options = { redis: bed.redis, prefix, durable: true };
    const off = inProcess(createRedisStateStore(options), aheadMs);
    const now = Date.now() + aheadMs;
    const refusal = {
      code: "internal",
      message: expect.stringMatching(/clock of this process is \d+ s (ahead of|behind) .* 900 s/),
    };
    const lease = { now, until: now + 30_000 };
    const uploads = inProcess(createRedisUploadStore(options), aheadMs);
    const times = { now, heldUntil: now + 30_000, expiresAt: now + 60_000 };
    const events = inProcess(createRedisEventStore(options), aheadMs);
    await expect(offset.run(aheadMs, () => checkRedis(options))).rejects.toMatchObject(refusal);
    for (const call of [
      () => off.claim(grant(), now),
      () => off.revoke({ principal: "alice" }, { now, ttlMs }),
      () => uploads.claim("f", lease),
      () => events.open("s", { record: "r", ...times }),
    ])
      await expect(call()).rejects.toMatchObject(refusal);
    const exact = createRedisStateStore(options);
    await exact.revoke({ principal: "alice" }, { now: Date.now(), ttlMs });
    const later = grant({ issuedAt: Date.now() + 1_000, expiresAt: Date.now() + ttlMs });
    expect(await exact.claim(later, later.issuedAt)).toMatchObject({ outcome: "granted" });
  });

  test("a lead that is kept beyond the bound counts up to the bound", async () => {
    const prefix = `{skewed ${(spaces += 1)}}:`;
    const store = createRedisStateStore({ redis: bed.redis, prefix, durable: true });
    await bed.redis.set(`${prefix}1:lead`, yearMs);
    await store.revoke({ principal: "alice" }, { now: Date.now(), ttlMs });
    const [within, beyond] = [800_000, 1_000_000].map((laterMs) => {
      const issuedAt = Date.now() + laterMs;
      return grant({ id: `${laterMs}`, issuedAt, expiresAt: issuedAt + 60_000 });
    });
    expect(await store.claim(within!, Date.now())).toEqual({ outcome: "revoked" });
    expect(await store.claim(beyond!, Date.now())).toMatchObject({ outcome: "granted" });
  });

  test("clocks within five seconds count as they are, and nothing is said", async () => {
    const redis = bed.redis;
    const prefix = `{skewed ${(spaces += 1)}}:`;
    const onWarning = (text: string): void => void warnings.push(text);
    const store = createRedisStateStore({ redis, prefix, durable: true, onWarning });
    for (const aheadMs of [-clockSkewMs / 2, clockSkewMs / 2]) {
      const expiresAt = Date.now() + aheadMs - 1;
      const id = `${aheadMs}`;
      const { state, now } = { state: inProcess(store, aheadMs), now: Date.now() + aheadMs };
      await state.put(id, Uint8Array.of(7), { now: expiresAt - 1_000, expiresAt, owner: "" });
      expect(await state.get(id, now)).toBeUndefined();
      expect(await state.get(id, now - 10)).toEqual(Uint8Array.of(7));
    }
    expect(warnings).toEqual([]);
  });

  const count = deep ? 10_000 : 50;
  test(
    `each of ${count} once links in a process ahead and one behind is redeemed once`,
    { timeout: 600_000, tags: "slow" },
    async () => {
      const program = inject("programs")["packages/state-redis/test/claiming-process.ts"]!;
      const children = await Promise.all(
        [tenMinutesMs, -tenMinutesMs].map(async (aheadMs) => {
          const child = fork(program, [bed.server.path, String(aheadMs)]);
          await once(child, "message");
          return child;
        }),
      );
      const granted = async (at: number, id: string, grants: object): Promise<number> => {
        const answer = once(children[at]!, "message");
        children[at]!.send({ id, claims: 2, now: Date.now(), grants });
        const [{ granted: sum }] = (await answer) as [{ granted: number }];
        return sum;
      };
      try {
        // near their end by the first clock, and far from it by the second
        const grants = { count, expiresAt: Date.now() + tenMinutesMs + 60_000 };
        const both = [granted(0, "both", grants), granted(1, "both", grants)];
        const [first, second] = await Promise.all(both);
        expect(first! + second!).toBe(count);
        expect(await granted(0, "in turn", grants)).toBe(count);
        // as long as the clock of the first process left of the claims, before
        if (deep) await new Promise((resolve) => setTimeout(resolve, 140_000));
        expect(await granted(1, "in turn", grants)).toBe(0);
      } finally {
        for (const child of children) child.kill("SIGKILL");
      }
    },
  );
});
