import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
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

export const host = "127.0.0.1";

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, host));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return ports;
}
