import { once } from "node:events";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";

/**
 * Connects to Redis. Rejects when it is not there at the start, or may evict what is kept in it; later the client looks for it by itself, and
 * until it is back every command fails at once.
 */
export async function connectRedis(url: string): Promise<Redis> {
  const redis = new Redis(url, {
    enableOfflineQueue: false,
    socketTimeout: 5_000,
    lazyConnect: true,
  });
  let lastError = "";
  redis.on("error", (error: Error) => {
    // it is tried again several times a second
    if (error.message !== lastError) console.error(`redis: ${error.message}`);
    lastError = error.message;
  });
  redis.on("ready", () => (lastError = ""));
  void redis.connect().catch(() => {});
  try {
    await once(redis, "ready", { signal: AbortSignal.timeout(5_000) });
  } catch (cause) {
    redis.disconnect();
    throw new Error("cluster: Redis does not answer; check REDIS_URL, and that it runs", { cause });
  }
  try {
    await createRedisStores({ redis }).check();
  } catch (error) {
    redis.disconnect();
    throw error;
  }
  return redis;
}
