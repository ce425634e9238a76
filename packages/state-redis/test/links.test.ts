import { createKeyRing, generateKey } from "@sluice/core";
import { createRedisStores } from "@sluice/state-redis";
import { createMemoryBackend } from "@sluice/storage";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasRedis, startRedis, type RedisServer } from "../../../e2e/bed/redis.ts";
import { Redis } from "ioredis";
import { alice, createHouse, type House } from "../../server/test/redeeming.ts";

const uri = "files://demo/a.bin";
const caller = { header: () => undefined, sessionId: "session" };

describe.runIf(hasRedis)("links of servers that share a Redis", () => {
  let server: RedisServer;
  const clients: Redis[] = [];
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await server?.[Symbol.asyncDispose]();
  });

  /** Two servers, each with its own connection, as processes have. */
  function createHouses(prefix: string): [House, House] {
    const keys = createKeyRing([generateKey()]);
    const storage = createMemoryBackend({ "a.bin": "0123456789" });
    const one = (): House => {
      const redis = new Redis({ path: server.path });
      clients.push(redis);
      return createHouse({
        keys,
        storage,
        stores: createRedisStores({ redis, prefix, durable: true }),
        links: {},
        limits: { streams: { perPrincipal: 100 } },
        rates: { failedRedemptions: false },
        principal: ({ sessionId }) => ({ ...alice, sessionId }),
      });
    };
    return [one(), one()];
  }

  const tokenOf = (url: string): string => url.slice(url.lastIndexOf("/") + 1);
  async function statusOf({ sluice }: House, url: string): Promise<number> {
    const request = { kind: "link", method: "GET", header: () => undefined } as const;
    const { status, transfer } = await sluice.host.redeem({ ...request, token: tokenOf(url) });
    transfer?.end({ outcome: "aborted", bytes: 0 });
    return status;
  }

  test("a link for once gives its bytes to one of many requests at all of them", async () => {
    const houses = createHouses("once:");
    const { url } = await houses[0].sluice.link(uri, { caller, use: "once" });
    const statuses = await Promise.all(
      Array.from({ length: 40 }, (_, n) => statusOf(houses[n % 2]!, url)),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 404)).toHaveLength(39);
  });

  test.each([
    ["its token", (house, url) => house.sluice.revoke({ token: tokenOf(url) })],
    ["its principal", (house) => house.sluice.revoke({ principal: alice })],
    ["its resource", (house) => house.sluice.revoke({ resource: uri })],
    ["its session", (house) => house.sluice.endSession("session")],
  ] as [string, (house: House, url: string) => Promise<void>][])(
    "a link that one of them made ends at both with %s, revoked at the other",
    async (name, kill) => {
      const [maker, other] = createHouses(`${name}:`);
      const { url } = await maker.sluice.link(uri, { caller });
      expect([await statusOf(maker, url), await statusOf(other, url)]).toEqual([200, 200]);
      await kill(other, url);
      expect([await statusOf(maker, url), await statusOf(other, url)]).toEqual([404, 404]);
    },
  );

  test("its records end with it, and none has its token", async () => {
    const [{ sluice }] = createHouses("records:");
    const { url } = await sluice.link(uri, { caller, ttlMs: 60_000 });
    const [redis] = clients;
    const names = await redis!.keys("records:1:*token*");
    expect(names).toHaveLength(1);
    expect(await redis!.pttl(names[0]!)).toBeLessThan(180_000);
    const kept = await Promise.all(names.map((name) => redis!.dump(name)));
    expect(`${names.join()} ${kept.join()}`).not.toContain(tokenOf(url));
  });
});
