import { createRedisStores, type RedisClient } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { createClient, createClientPool } from "redis";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { hasRedis, startRedis, type RedisServer } from "../../../e2e/bed/redis.ts";
import { freePorts, host } from "./redis-bed.ts";

const reconnectStrategy = (retries: number): number => Math.min(50 * 2 ** retries, 2_000);
const now = Date.now();

test.each([
  ["", {}],
  [" and pingInterval", { pingInterval: 2_000 }],
])("rejects a node-redis client with socketTimeout%s and no reconnectStrategy", (_, options) => {
  const redis = createClient({ ...options, socket: { socketTimeout: 5_000 } });
  expect(() => createRedisStores({ redis })).toThrow(/pass socket.reconnectStrategy/);
});

test.each([
  ["no option", {}],
  ["pingInterval", { pingInterval: 2_000 }],
  ["reconnectStrategy", { socket: { reconnectStrategy } }],
  ["socketTimeout and reconnectStrategy", { socket: { socketTimeout: 5_000, reconnectStrategy } }],
  ["a declared end", { socket: { socketTimeout: 5_000, reconnectStrategy: false } as const }],
])("accepts a node-redis client with %s", (_, options) => {
  expect(createRedisStores({ redis: createClient(options) })).toHaveProperty("state");
});

describe.runIf(hasRedis)("a client of a Redis that falls silent", () => {
  let server: RedisServer;
  let url: string;
  beforeAll(async () => {
    const [port] = await freePorts(1);
    server = await startRedis({ settings: ["--bind", host, "--port", `${port}`] });
    url = `redis://${host}:${port}`;
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  test("node-redis as in the guide is there again when Redis is", { tags: "slow" }, async () => {
    // #region node-redis
    const redis = createClient({
      url,
      disableOfflineQueue: true,
      pingInterval: 2_000,
      socket: {
        socketTimeout: 5_000,
        reconnectStrategy: (retries) => Math.min(50 * 2 ** retries, 2_000),
      },
    });
    redis.on("error", (error: Error) => console.error(`redis: ${error.message}`));
    await redis.connect();
    const stores = createRedisStores({ redis });
    await stores.check();
    // #endregion
    const reported = vi.spyOn(console, "error").mockReturnValue();
    try {
      server.freeze();
      await vi.waitFor(() => expect(reported).toHaveBeenCalled(), 20_000);
      await expect(stores.state.get("r", now)).rejects.toMatchObject({ code: "unavailable" });
      server.thaw();
      await vi.waitFor(() => stores.state.get("r", now), 20_000);
    } finally {
      server.thaw();
      reported.mockRestore();
      redis.destroy();
    }
  });

  const closing: readonly [string, () => Promise<RedisClient>][] = [
    ["a client of node-redis", async () => closed(createClient({ url }))],
    ["a pool of node-redis", async () => closed(createClientPool({ url }))],
    [
      // its own `isOpen` stays true
      "a pool of node-redis whose connections closed for good",
      async () => ({
        isOpen: true,
        sendCommand: () => Promise.reject(new Error("The client is closed")),
      }),
    ],
    [
      "a client of ioredis",
      async () => {
        const redis = new Redis(url);
        await redis.quit();
        return redis;
      },
    ],
  ];
  test.each(closing)("reports once that %s is closed, with what to do", async (_, close) => {
    const onWarning = vi.fn<(message: string) => void>();
    const { state } = createRedisStores({ redis: await close(), onWarning });
    const outage = { code: "unavailable", message: expect.stringContaining("call its connect()") };
    for (let i = 0; i < 3; i += 1) await expect(state.get("r", now)).rejects.toMatchObject(outage);
    expect(onWarning.mock.calls).toEqual([[expect.stringContaining("client of Redis is closed")]]);
  });

  test("closed clients of both libraries serve again after connect()", async () => {
    const ofNode = await closed(createClient({ url }));
    const ofIoredis = new Redis(url);
    await ofIoredis.quit();
    for (const redis of [ofNode, ofIoredis]) {
      const { state } = createRedisStores({ redis, onWarning: () => {} });
      await expect(state.get("r", now)).rejects.toMatchObject({ code: "unavailable" });
      await redis.connect();
      expect(await state.get("r", now)).toBeUndefined();
    }
    ofNode.destroy();
    ofIoredis.disconnect();
  });
});

async function closed<Client extends { connect(): Promise<unknown>; close(): unknown }>(
  client: Client,
): Promise<Client> {
  await client.connect();
  await client.close();
  return client;
}
