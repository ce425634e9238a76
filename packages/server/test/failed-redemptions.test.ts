import { RateLimiterMemory } from "rate-limiter-flexible";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createMemoryLimiter } from "../src/limits/failed-redemptions.ts";
import { alice, as, bodyOf, createHouse, headerOf, type House } from "./redeeming.ts";

const headers = as(alice);
const bob = { ...alice, subject: "bob" };
const one = "192.0.2.1";
const other = "192.0.2.2";

async function fail(house: House, address: string | undefined, times = 20): Promise<number[]> {
  const statuses: number[] = [];
  for (let n = 0; n < times; n++)
    statuses.push(
      (await house.redeem(`forged-${n}`, address === undefined ? {} : { address })).status,
    );
  return statuses;
}

test("an address that failed twenty times in a minute gets 429 with Retry-After, and other addresses do not", async () => {
  const house = createHouse();
  expect(new Set(await fail(house, one))).toEqual(new Set([404]));
  const refused = await house.redeem("forged", { address: one });
  expect(refused.status).toBe(429);
  expect(Number(headerOf(refused, "retry-after"))).toBeGreaterThan(0);
  expect(Number(headerOf(refused, "retry-after"))).toBeLessThanOrEqual(60);
  expect(await fail(house, other, 1)).toEqual([404]);
  expect(new Set(await fail(house, undefined, 50))).toEqual(new Set([404]));
});

test("a response beyond the limit is delayed, unless the client disconnects", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const house = createHouse();
  await fail(house, one);
  let answered = 0;
  const gone = new AbortController();
  for (const signal of [undefined, gone.signal])
    void house.redeem("forged", { address: one, signal }).then(() => (answered += 1));
  await vi.advanceTimersByTimeAsync(99);
  expect(answered).toBe(0);
  gone.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect(answered).toBe(1);
  await vi.advanceTimersByTimeAsync(101);
  expect(answered).toBe(2);
  expect(vi.getTimerCount()).toBeLessThanOrEqual(1);
});

test("a URL that works is served to an address that is over the limit, and does not count", async () => {
  const house = createHouse();
  const { token } = house.seal("download", { key: "a.bin", principal: alice });
  for (let n = 0; n < 30; n++)
    expect((await house.redeem(token, { method: "HEAD", headers, address: one })).status).toBe(200);
  await fail(house, one, 22);
  expect(await bodyOf(await house.redeem(token, { headers, address: one }))).toBe("0123456789");
  // a client whose access token or URL is over is told so, and asks anew
  expect((await house.redeem(token, { address: one })).status).toBe(401);
  const old = house.seal("download", {
    key: "a.bin",
    principal: alice,
    now: Date.now() - 10 ** 7,
  });
  expect((await house.redeem(old.token, { headers, address: one })).status).toBe(410);
});

test("all that is answered 404 counts, and is answered alike beyond the limit", async () => {
  const house = createHouse({ access: (_, uri) => (uri.endsWith("b.bin") ? "hide" : "allow") });
  const tokenFor = (key: string, principal = alice): string =>
    house.seal("download", { key, principal }).token;
  const once = house.seal("download", { key: "a.bin", principal: alice, use: "once" }).token;
  await bodyOf(await house.redeem(once, { headers }));
  const tokens = [
    "forged",
    `${tokenFor("a.bin").slice(0, -1)}_`,
    tokenFor("a.bin", bob),
    tokenFor("gone.bin"),
    tokenFor("b.bin"),
    once,
  ];
  const answersOf = async (): Promise<string[]> => {
    const answers: string[] = [];
    for (const token of tokens) {
      const reply = await house.redeem(token, { headers, address: one });
      answers.push(`${reply.status} ${reply.text}`);
    }
    return [...new Set(answers)];
  };
  expect(await answersOf()).toEqual([expect.stringMatching(/^404 /)]);
  await fail(house, one, 14);
  expect(await answersOf()).toEqual([expect.stringMatching(/^429 /)]);
});

test("the addresses of one IPv6 network of a client are one", async () => {
  const house = createHouse();
  for (let n = 0; n < 20; n++)
    await house.redeem("forged", { address: `2001:db8:0:1::${n.toString(16)}` });
  expect(await fail(house, "2001:db8:0:1:ffff::1", 1)).toEqual([429]);
  expect(await fail(house, "2001:db8:0:2::1", 1)).toEqual([404]);
});

test("the hook of the host says the address", async () => {
  const house = createHouse({ clientAddress: ({ header }) => header("cf-connecting-ip") });
  const from = (address: string) =>
    house.redeem("forged", { address: one, headers: { "cf-connecting-ip": address } });
  for (let n = 0; n < 20; n++) await from("198.51.100.1");
  expect((await from("198.51.100.1")).status).toBe(429);
  expect((await from("198.51.100.2")).status).toBe(404);
});

test("a limiter of rate-limiter-flexible takes the place of the default, and false of any", async () => {
  const failedRedemptions = new RateLimiterMemory({ points: 2, duration: 60 });
  const house = createHouse({ rates: { failedRedemptions } });
  expect(await fail(house, one, 3)).toEqual([404, 404, 429]);
  const open = createHouse({ rates: { failedRedemptions: false } });
  expect(new Set(await fail(open, one, 50))).toEqual(new Set([404]));
  expect(() => createHouse({ rates: { failedRedemptions: {} as never } })).toThrow(TypeError);
});

test("a limiter that is away holds nothing back, and is complained about once", async () => {
  const limiter = { consume: () => Promise.reject(new Error("gone")) };
  const house = createHouse({ rates: { failedRedemptions: limiter } });
  expect(new Set(await fail(house, one, 50))).toEqual(new Set([404]));
  expect(house.errors).toHaveLength(1);
});

describe("the default limiter", () => {
  test("begins anew after a minute", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const house = createHouse();
    await fail(house, one, 21);
    vi.setSystemTime(Date.now() + 60_000);
    expect(await fail(house, one, 1)).toEqual([404]);
  });

  test("remembers ten thousand addresses, and takes all others for one", async () => {
    const limiter = createMemoryLimiter(20);
    for (let n = 0; n < 10_000; n++) await limiter.consume(`a${n}`, 1);
    for (let n = 0; n < 20; n++) await limiter.consume(`b${n}`, 1);
    await expect(limiter.consume("c", 1)).rejects.toHaveProperty("msBeforeNext");
    await limiter.consume("a0", 1);
  });
});
