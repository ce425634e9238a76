import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import type { RateLimiter, SluiceOptions } from "@sluice/server";
import {
  RateLimiterMemory,
  RateLimiterPostgres,
  RateLimiterRedis,
  RateLimiterValkey,
} from "rate-limiter-flexible";
import { describe, expect, expectTypeOf, test, vi } from "vitest";
import { alice, as, bodyOf, createHouse, headerOf, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const bob = { ...alice, subject: "bob" };
const limiter = (points: number): RateLimiterMemory =>
  new RateLimiterMemory({ points, duration: 60 });
const uri = "files://demo/a.bin";
const methods = ["resources/list", "resources/read", "resources/stream"];

function createTalk(rates: SluiceOptions["rates"], more: Partial<SluiceOptions> = {}) {
  const house = createHouse({ rates: rates!, anonymous: true, ...more });
  return { house, talk: talkTo(house.sluice) };
}

const tokenOf = (house: House, principal = alice, key = "a.bin"): string =>
  house.seal("download", { key, principal }).token;

test("the limiters of the library are limiters, whatever keeps their counters", () => {
  expectTypeOf<RateLimiterMemory>().toExtend<RateLimiter>();
  expectTypeOf<RateLimiterRedis>().toExtend<RateLimiter>();
  expectTypeOf<RateLimiterValkey>().toExtend<RateLimiter>();
  expectTypeOf<RateLimiterPostgres>().toExtend<RateLimiter>();
  const number = 120 as unknown as RateLimiter;
  expect(() => createHouse({ rates: { requests: { perPrincipal: number } } })).toThrow(TypeError);
});

describe.each(eras)("%s era", (era) => {
  test.each(methods)(
    "%s over the limit is busy, with the time to wait, for that principal alone [ARTICLE/9.2/rate-limit]",
    async (method) => {
      const { talk, house } = createTalk({ requests: { perPrincipal: limiter(2) } });
      const ask = async (headers: Record<string, string>) => {
        const { message, slot } = await talk(era, method, { params: { uri }, headers });
        slot.reply?.transfer?.end({ outcome: "complete", bytes: 10 });
        return message.error;
      };
      expect(await ask(as(alice))).toBeUndefined();
      expect(await ask(as(alice))).toBeUndefined();
      const error = await ask(as(alice));
      expect(error?.code).toBe(era === "legacy" ? -32603 : -25326);
      expect(error?.data.reason).toBe("busy");
      expect(error?.data.retryAfterMs).toBeGreaterThan(50_000);
      expect(error?.data.retryAfterMs).toBeLessThanOrEqual(60_000);
      // most hosts show the message only
      expect(error?.message).toMatch(/^Busy, try again later\. Wait (5\d|60) s$/);
      expect(await ask(as(bob))).toBeUndefined();
      expect(house.records.at(-2)).toMatchObject({ outcome: "denied", reason: "throttled" });
    },
  );

  test("the limit for all counts everybody, the anonymous too", async () => {
    const { talk } = createTalk(
      { requests: { global: limiter(3) } },
      { principal: () => undefined },
    );
    const ask = async () => (await talk(era, "resources/list")).message.error?.data.reason;
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([
      undefined,
      undefined,
      undefined,
      "busy",
    ]);
  });

  test("bytes that were read count; what follows waits for the next window", async () => {
    const { talk } = createTalk({ bytes: { perPrincipal: limiter(15) } });
    const read = async (headers: Record<string, string>) =>
      (await talk(era, "resources/read", { params: { uri }, headers })).message.error?.data.reason;
    expect(await read(as(alice))).toBeUndefined();
    expect(await read(as(alice))).toBeUndefined();
    expect(await read(as(alice))).toBe("busy");
    expect(await read(as(bob))).toBeUndefined();
    const { message } = await talk(era, "resources/list", { headers: as(alice) });
    expect(message.error).toBeUndefined();
  });
});

test("a redemption over the limit is 429 with Retry-After, and leaves the grant alone", async () => {
  const requests = limiter(1);
  const { house } = createTalk({ requests: { perPrincipal: requests } });
  const { token } = house.seal("download", { key: "a.bin", principal: alice, use: "once" });
  await bodyOf(await house.redeem(tokenOf(house), { headers: as(alice) }));
  const refused = await house.redeem(token, { headers: as(alice) });
  expect([refused.status, JSON.parse(refused.text!).reason]).toEqual([429, "rate"]);
  const seconds = Number(headerOf(refused, "retry-after"));
  expect(seconds).toBeGreaterThan(50);
  expect(seconds).toBeLessThanOrEqual(60);
  await requests.delete(house.records[0]!.principal!);
  expect(await bodyOf(await house.redeem(token, { headers: as(alice) }))).toBe("0123456789");
});

test("delivered bytes count, not promised ones, and HEAD costs none", async () => {
  const bytes = limiter(25);
  const { house } = createTalk({ bytes: { perPrincipal: bytes } });
  const start = () => house.redeem(tokenOf(house), { headers: as(alice) });
  const first = await start();
  first.transfer!.end({ outcome: "aborted", bytes: 4 });
  const tag = house.records[0]!.principal!;
  expect((await bytes.get(tag))?.consumedPoints).toBe(1 + 4);
  const head = await house.redeem(tokenOf(house), { method: "HEAD", headers: as(alice) });
  expect(head.status).toBe(200);
  expect((await bytes.get(tag))?.consumedPoints).toBe(5);
  await bodyOf(await start());
  await bodyOf(await start());
  expect((await start()).status).toBe(429);
});

test("bytes that use up a principal's window still count for all", async () => {
  const all = limiter(100);
  const { house } = createTalk({ bytes: { perPrincipal: limiter(5), global: all } });
  await bodyOf(await house.redeem(tokenOf(house), { headers: as(alice) }));
  await expect.poll(async () => (await all.get("all"))?.consumedPoints).toBe(1 + 10);
});

test("a caller that invents tokens uses up nobody's window", async () => {
  const { house } = createTalk({ requests: { global: limiter(1), perPrincipal: limiter(1) } });
  for (let n = 0; n < 5; n++)
    expect((await house.redeem("nonsense", { headers: as(alice) })).status).toBe(404);
  expect((await house.redeem(tokenOf(house), { headers: as(alice) })).status).toBe(200);
});

test("hidden resources are counted as missing ones", async () => {
  const requests = limiter(10);
  const { house, talk } = createTalk(
    { requests: { perPrincipal: requests } },
    { access: (_principal, asked) => (asked === uri ? "hide" : "allow") },
  );
  const used: number[] = [];
  for (const name of ["a.bin", "gone.bin"]) {
    const params = { uri: `files://demo/${name}` };
    for (const method of ["resources/read", "resources/stream"])
      await talk("modern", method, { params, headers: as(alice) });
    await house.redeem(tokenOf(house, alice, name), { headers: as(alice) });
    const { principal } = house.records[0]!;
    used.push((await requests.get(principal!))!.consumedPoints);
  }
  expect(used).toEqual([3, 6]);
});

describe("a limiter that does not answer", () => {
  const failing: RateLimiter = { consume: () => Promise.reject(new Error("redis: away")) };
  const silent: RateLimiter = { consume: () => new Promise(() => {}) };

  test("means 503 and busy, never bytes", async () => {
    let opened = 0;
    const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
      open: (open) => (key, options) => {
        opened += 1;
        return open(key, options);
      },
    });
    const { house, talk } = createTalk({ requests: { perPrincipal: failing } }, { storage });
    const reply = await house.redeem(tokenOf(house), { headers: as(alice) });
    expect([reply.status, headerOf(reply, "retry-after")]).toEqual([503, "1"]);
    const { message } = await talk("modern", "resources/read", {
      params: { uri },
      headers: as(alice),
    });
    expect(message.error?.data.reason).toBe("busy");
    expect(opened).toBe(0);
  });

  test.each([
    ["requests", "perPrincipal"],
    ["requests", "global"],
    ["bytes", "perPrincipal"],
    ["bytes", "global"],
  ] as const)("is named to the operator: rates.%s.%s", async (rate, limit) => {
    const { house } = createTalk({ [rate]: { [limit]: failing } });
    expect((await house.redeem(tokenOf(house), { headers: as(alice) })).status).toBe(503);
    expect(house.errors.map(String).join()).toContain(
      `the limiter rates.${rate}.${limit} does not`,
    );
  });

  test("is waited for 5 s", async () => {
    const { house } = createTalk({ requests: { global: silent } });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const asked = house.redeem(tokenOf(house), { headers: as(alice) });
      await vi.advanceTimersByTimeAsync(5_000);
      expect((await asked).status).toBe(503);
    } finally {
      vi.useRealTimers();
    }
  });

  test("is an error only on our side when bytes are counted afterwards", async () => {
    let calls = 0;
    const bytes: RateLimiter = {
      consume: async () => {
        if ((calls += 1) > 1) throw new Error("redis: away");
      },
    };
    const { house } = createTalk({ bytes: { perPrincipal: bytes } });
    expect(await bodyOf(await house.redeem(tokenOf(house), { headers: as(alice) }))).toBe(
      "0123456789",
    );
    await expect.poll(() => house.errors).toHaveLength(1);
  });
});
