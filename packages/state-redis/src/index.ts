export type { RedisClient, RedisOptions } from "./lib/redis-client.ts";
export {
  createRedisStores,
  type RedisStores,
  type RedisStoresOptions,
} from "./lib/redis-stores.ts";
export type { ShareChangesOptions } from "./lib/share-changes.ts";
