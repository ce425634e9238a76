import { eventStoreCases, stateStoreCases, uploadStoreCases } from "@sluice/state/conformance";
import { createRedisStores, type RedisClient } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasRedis, startRedis, type RedisServer } from "../../../e2e/bed/redis.ts";

describe.runIf(hasRedis)("stores in a real Redis", () => {
  let server: RedisServer;
  let ioredis: Redis;
  let nodeRedis: ReturnType<typeof createClient>;
  let spaces = 0;

  beforeAll(async () => {
    server = await startRedis();
    ioredis = new Redis({ path: server.path });
    nodeRedis = createClient({ socket: { path: server.path, tls: false } });
    await nodeRedis.connect();
  });
  afterAll(async () => {
    ioredis?.disconnect();
    nodeRedis?.destroy();
    await server?.[Symbol.asyncDispose]();
  });

  const clients: Record<string, () => RedisClient> = {
    ioredis: () => ioredis,
    "node-redis": () => nodeRedis,
  };

  /** Separate keys for each store, as if the server were empty. */
  const space = (): string => `{test ${(spaces += 1)}}:`;

  describe.each(Object.entries(clients))("through %s", (_name, client) => {
    test.each(stateStoreCases)("state: $id: $sentence", async ({ run }) => {
      await expect(
        run(
          (limits) =>
            createRedisStores({ redis: client(), prefix: space(), durable: true, ...limits }).state,
        ),
      ).resolves.toBeUndefined();
    });

    test.each(eventStoreCases)("events: $id: $sentence", async ({ run }) => {
      await expect(
        run((events) => createRedisStores({ redis: client(), prefix: space(), events }).events),
      ).resolves.toBeUndefined();
    });

    test.each(uploadStoreCases)("uploads: $id: $sentence", async ({ run }) => {
      const make = () => createRedisStores({ redis: client(), prefix: space() }).uploads;
      await expect(run(make)).resolves.toBeUndefined();
    });
  });
});
