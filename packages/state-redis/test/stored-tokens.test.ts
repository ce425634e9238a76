import { createKeyRing, generateKey, type Principal } from "@sluice/core";
import type { GrantOptions } from "@sluice/server";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasRedis, startRedis, type RedisServer } from "../../../e2e/bed/redis.ts";
import { as, bodyOf, createHouse, type House } from "../../server/test/redeeming.ts";

const someone: Principal = {
  issuer: "https://id.example.com",
  subject: "somebody@example.com",
  clientId: "their-client",
};

describe.runIf(hasRedis)("download URLs of servers that share a Redis", () => {
  let server: RedisServer;
  const clients: Redis[] = [];

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await server?.[Symbol.asyncDispose]();
  });

  function connect(): Redis {
    const client = new Redis({ path: server.path });
    clients.push(client);
    return client;
  }

  /** Servers, each with its own connection, as processes have; they share only keys. */
  function createHouses(
    prefix: string,
    grant: GrantOptions,
    timeoutsMs: readonly number[] = [10_000, 10_000],
  ): House[] {
    const keys = createKeyRing([generateKey()]);
    return timeoutsMs.map((timeoutMs) => {
      const stores = createRedisStores({ redis: connect(), prefix, timeoutMs, durable: true });
      return createHouse({ keys, stores, grant, limits: { streams: { perPrincipal: 100 } } });
    });
  }

  const mint = async ({ sluice }: House, key = "a.bin") =>
    (await sluice.host.mint(
      { principal: someone, mayMint: true, maxTtlMs: 300_000 },
      key,
      undefined,
    ))!;

  async function statusOf(house: House, token: string, method: "GET" | "HEAD" = "GET") {
    const reply = await house.redeem(token, { method, headers: as(someone) });
    await bodyOf(reply);
    return reply.status;
  }

  test.each(["sealed", "stored"] as const)(
    "%s: made in one, used once by one of many in both, and known as used to HEAD",
    async (tokens) => {
      const houses = createHouses(`{once ${tokens}}:`, { tokens, use: "once" });
      const { token } = await mint(houses[0]!);
      expect(await statusOf(houses[1]!, token, "HEAD")).toBe(200);
      const statuses = await Promise.all(
        Array.from({ length: 30 }, (_, n) => statusOf(houses[n % 2]!, token)),
      );
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      expect(statuses.filter((status) => status === 404)).toHaveLength(29);
      expect(await statusOf(houses[1]!, token, "HEAD")).toBe(404);
    },
  );

  test.each(["sealed", "stored"] as const)(
    "%s: a grant revoked in one is revoked in the other, by token, grant, principal and resource",
    async (tokens) => {
      const [one, two] = createHouses(`{revoked ${tokens}}:`, { tokens }) as [House, House];
      const [first, second, other] = [await mint(one), await mint(one), await mint(one, "b.bin")];
      const statuses = () =>
        Promise.all([first, second, other].map(({ token }) => statusOf(two, token)));
      expect(await statuses()).toEqual([200, 200, 200]);
      await one.sluice.revoke({ token: first.token });
      expect(await statuses()).toEqual([404, 200, 200]);
      await one.sluice.revoke({ grant: second.id });
      expect(await statuses()).toEqual([404, 404, 200]);
      await one.sluice.revoke({ resource: "files://demo/b.bin" });
      expect(await statuses()).toEqual([404, 404, 404]);
      const [alike, unlike] = createHouses(`{principal ${tokens}}:`, { tokens }) as [House, House];
      const { token } = await mint(alike);
      await unlike.sluice.revoke({ principal: { ...someone, subject: "somebody else" } });
      expect(await statusOf(alike, token)).toBe(200);
      await unlike.sluice.revoke({ principal: someone });
      expect(await statusOf(alike, token)).toBe(404);
    },
  );

  test("no token that needs Redis is redeemed while it hangs, others are, and nothing is lost", async () => {
    const prefix = "{hangs}:";
    const [patient, hasty] = createHouses(prefix, { tokens: "stored" }, [10_000, 100]);
    const [alone] = createHouses(prefix, { revocable: false }, [100]);
    const [kept, free] = [await mint(patient!), await mint(alone!)];
    server.freeze();
    try {
      const asked = [1, 2, 3].map(() => statusOf(hasty!, kept.token));
      expect(await Promise.all(asked)).toEqual([503, 503, 503]);
      await expect(mint(hasty!)).rejects.toMatchObject({
        code: "unavailable",
        retryAfterMs: 1_000,
      });
      expect(await statusOf(alone!, free.token)).toBe(200);
      expect(await statusOf(alone!, free.token, "HEAD")).toBe(200);
    } finally {
      server.thaw();
    }
    expect(await statusOf(patient!, kept.token)).toBe(200);
  });

  test("a dump of Redis redeems nothing and names no user", async () => {
    const prefix = "{dump}:";
    const [one, two] = createHouses(prefix, { tokens: "stored", use: "lease" }) as [House, House];
    const grants = await Promise.all(Array.from({ length: 5 }, () => mint(one)));
    const part = await two.redeem(grants[0]!.token, {
      headers: { ...as(someone), range: "bytes=0-1" },
    });
    await bodyOf(part);
    await two.sluice.revoke({ principal: { ...someone, subject: "another@example.com" } });
    await two.sluice.revoke({ grant: grants[4]!.id });

    const dump = await dumpOf(connect(), prefix);
    expect(dump.length).toBeGreaterThan(6);
    const text = dump.join("\n");
    for (const known of ["a.bin", "demo", "example.com", "somebody", "another", "their-client"])
      expect(text).not.toContain(known);
    for (const { token } of grants) expect(text).not.toContain(token.slice(0, 12));

    const shapes = new Set(
      dump.flatMap((line) =>
        (line.match(/[\w+/-]{32,}/g) ?? []).flatMap((run) =>
          Array.from({ length: run.length - 31 }, (_, at) => urlSafe(run.slice(at, at + 32))),
        ),
      ),
    );
    expect(shapes.size).toBeGreaterThan(100);
    const sample = [...shapes].filter((_, n) => n % 4 === 0);
    const statuses = await Promise.all(sample.map((shape) => statusOf(two, shape, "HEAD")));
    expect(new Set(statuses)).toEqual(new Set([404]));
    expect(await statusOf(two, grants[1]!.token, "HEAD")).toBe(200);
  });
});

/** Everything under a prefix, keys and values, even as the bytes that base64 stands for. */
async function dumpOf(redis: Redis, prefix: string): Promise<string[]> {
  const lines: string[] = [];
  for (const key of await redis.keys(`${prefix}*`)) {
    const kind = await redis.type(key);
    let value: string | null;
    if (kind === "hash") value = JSON.stringify(await redis.hgetall(key));
    else if (kind === "zset") value = JSON.stringify(await redis.zrange(key, "0", "-1"));
    else value = await redis.get(key);
    const encoded = / ([\w+/=]+)$/.exec(value ?? "")?.[1] ?? "";
    lines.push(`${key} ${value} ${Buffer.from(encoded, "base64").toString("latin1")}`);
  }
  return lines;
}

function urlSafe(base64: string): string {
  return base64.replaceAll("+", "-").replaceAll("/", "_");
}
