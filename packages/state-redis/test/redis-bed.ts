import { Redis } from "ioredis";
import { afterAll, beforeAll } from "vitest";
import { startRedis, type RedisServer } from "../../../e2e/bed/redis.ts";

/** A Redis for the tests of one file, and a client of it; both are there once the tests run. */
export function useRedis(): { readonly server: RedisServer; readonly redis: Redis } {
  let server: RedisServer;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis({ path: server.path });
  });
  afterAll(async () => {
    redis?.disconnect();
    await server?.[Symbol.asyncDispose]();
  });
  return {
    get server() {
      return server;
    },
    get redis() {
      return redis;
    },
  };
}
