import type { RateLimiter, SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { Redis } from "ioredis";
import { RateLimiterMemory, RateLimiterRedis } from "rate-limiter-flexible";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { hasRedis, startRedis, type RedisServer } from "../../../e2e/bed/redis.ts";
import { alice, as, bodyOf, createHouse, headerOf, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const bob = { ...alice, subject: "bob" };
const uri = "files://demo/a.bin";

describe.runIf(hasRedis)("limits whose counters are in Redis", () => {
  let redis: RedisServer;
  const clients: Redis[] = [];
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    await connect().flushall();
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.disconnect();
  });

  /** A connection on which what cannot be asked now is refused soon, as decision 012 advises. */
  function connect(commandTimeout?: number): Redis {
    const client = new Redis({
      path: redis.path,
      maxRetriesPerRequest: 0,
      ...(commandTimeout !== undefined && { commandTimeout }),
    });
    client.on("error", () => {});
    clients.push(client);
    return client;
  }

  /** A limiter with a connection of its own, as each process has one. */
  const limiter = (points: number, keyPrefix = "requests"): RateLimiterRedis =>
    new RateLimiterRedis({ storeClient: connect(), keyPrefix, points, duration: 60 });
  const impatient = (points: number): RateLimiterRedis =>
    new RateLimiterRedis({ storeClient: connect(300), points, duration: 60 });

  /** Two servers that share nothing but Redis. */
  const twoHouses = (
    rates: () => NonNullable<SluiceOptions["rates"]>,
    more: Partial<SluiceOptions> = {},
  ): House[] => [1, 2].map(() => createHouse({ rates: rates(), ...more }));

  const tokenOf = (house: House): string =>
    house.seal("download", { key: "a.bin", principal: alice }).token;

  /** Results of this many lists that both servers get at the same time: `undefined`, or why not. */
  async function listTogether(houses: readonly House[], times: number): Promise<unknown[]> {
    const talks = houses.map(({ sluice }) => talkTo(sluice));
    return Promise.all(
      Array.from({ length: times }, async (_, n) => {
        const talk = talks[n % talks.length]!;
        const { message } = await talk("modern", "resources/list", { headers: as(alice) });
        return message.error?.data.reason;
      }),
    );
  }

  test("servers share one window, also for calls that come together [ARTICLE/9.2/rate-limit]", async () => {
    const houses = twoHouses(() => ({ requests: { perPrincipal: limiter(7) } }));
    const answers = await listTogether(houses, 20);
    expect(answers.filter((reason) => reason === undefined)).toHaveLength(7);
    expect(answers.filter((reason) => reason === "busy")).toHaveLength(13);
  });

  test("negative control: separate counters for each process let everybody in twice", async () => {
    const memory = () => new RateLimiterMemory({ points: 7, duration: 60 });
    const answers = await listTogether(
      twoHouses(() => ({ requests: { perPrincipal: memory() } })),
      20,
    );
    expect(answers.filter((reason) => reason === undefined)).toHaveLength(14);
  });

  test.each(eras)(
    "requests at one server count at the other: busy with the time to wait, only for that principal, %s era",
    async (era) => {
      const [one, two] = twoHouses(() => ({ requests: { perPrincipal: limiter(1) } }));
      const read = async (house: House, headers: Record<string, string>) =>
        (await talkTo(house.sluice)(era, "resources/read", { params: { uri }, headers })).message;
      expect((await read(one!, as(alice))).error).toBeUndefined();
      const { error } = await read(two!, as(alice));
      expect(error).toMatchObject({
        code: era === "legacy" ? -32603 : -25326,
        data: { reason: "busy" },
      });
      expect(error?.data.retryAfterMs).toBeGreaterThan(30_000);
      expect(error?.data.retryAfterMs).toBeLessThanOrEqual(60_000);
      expect((await read(two!, as(bob))).error).toBeUndefined();
    },
  );

  test("a redemption over the shared window is 429 with Retry-After, and works when the window is over", async () => {
    const [one, two] = twoHouses(() => ({ requests: { perPrincipal: limiter(1) } }));
    expect(await bodyOf(await one!.redeem(tokenOf(one!), { headers: as(alice) }))).toBe(
      "0123456789",
    );
    const token = tokenOf(two!);
    const refused = await two!.redeem(token, { headers: as(alice) });
    expect([refused.status, JSON.parse(refused.text!).reason]).toEqual([429, "rate"]);
    expect(Number(headerOf(refused, "retry-after"))).toBeGreaterThan(30);
    // the rest of the minute, in a millisecond
    const client = connect();
    for (const key of await client.keys("requests:*")) await client.pexpire(key, 1);
    await expect.poll(() => client.keys("*")).toEqual([]);
    expect((await two!.redeem(token, { headers: as(alice) })).status).toBe(200);
  });

  test("bytes that one server delivered are gone from the window of the other, and from that of all", async () => {
    const [one, two] = twoHouses(() => ({
      bytes: { perPrincipal: limiter(15, "bytes"), global: limiter(1_000, "all-bytes") },
    }));
    await bodyOf(await one!.redeem(tokenOf(one!), { headers: as(alice) }));
    const client = connect();
    const used = async (prefix: string): Promise<number> =>
      Number(await client.get((await client.keys(`${prefix}:*`))[0]!));
    // each transfer costs a point when it is let in, and what it delivered
    await expect.poll(() => used("all-bytes")).toBe(1 + 10);
    await bodyOf(await two!.redeem(tokenOf(two!), { headers: as(alice) }));
    await expect.poll(() => used("bytes")).toBe(2 + 20);
    for (const house of [one!, two!])
      expect((await house.redeem(tokenOf(house), { headers: as(alice) })).status).toBe(429);
  });

  describe.each([
    ["that is down", async (server: RedisServer) => server[Symbol.asyncDispose]()],
    ["that hangs", async (server: RedisServer) => server.freeze()],
  ] as const)("a Redis %s", (_, fail) => {
    test("means busy and 503, never bytes, and the next one that is there is asked again", async () => {
      let opened = 0;
      const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
        open: (open) => (key, options) => {
          opened += 1;
          return open(key, options);
        },
      });
      const house = createHouse({
        storage,
        rates: { requests: { perPrincipal: impatient(100) } },
      });
      const talk = talkTo(house.sluice);
      const read = () => talk("modern", "resources/read", { params: { uri }, headers: as(alice) });
      // on a busy machine also connecting takes longer than it has the patience for
      await expect.poll(async () => (await read()).message.error).toBeUndefined();
      expect(opened).toBe(1);
      await fail(redis);
      try {
        expect((await read()).message.error).toMatchObject({ data: { reason: "busy" } });
        const reply = await house.redeem(tokenOf(house), { headers: as(alice) });
        expect([reply.status, headerOf(reply, "retry-after")]).toEqual([503, "1"]);
        const { message } = await talk("legacy", "resources/list", { headers: as(alice) });
        expect(message.error).toMatchObject({ code: -32603, data: { reason: "busy" } });
        expect(opened).toBe(1);
      } finally {
        redis.thaw();
        await redis[Symbol.asyncDispose]();
        redis = await startRedis();
      }
      const next = createHouse({ rates: { requests: { perPrincipal: limiter(100) } } });
      expect((await next.redeem(tokenOf(next), { headers: as(alice) })).status).toBe(200);
    });

    test("negative control: a limiter that lets in what it cannot count is detected", async () => {
      const real = impatient(1);
      const lenient: RateLimiter = {
        consume: (key, points) =>
          real.consume(key, points).catch((error: unknown) => {
            if (error instanceof Error) return undefined;
            throw error;
          }),
      };
      const house = createHouse({ rates: { requests: { perPrincipal: lenient } } });
      await fail(redis);
      try {
        const reply = await house.redeem(tokenOf(house), { headers: as(alice) });
        expect(reply.status).toBe(200);
      } finally {
        redis.thaw();
        await redis[Symbol.asyncDispose]();
        redis = await startRedis();
      }
    });
  });
});
