export { checkRedis, type RedisClient, type RedisOptions } from "./lib/redis-client.ts";
export { createRedisEventStore } from "./lib/redis-event-store.ts";
export { createRedisStateStore, type RedisStateStoreOptions } from "./lib/redis-state-store.ts";
export { createRedisUploadStore } from "./lib/redis-upload-store.ts";
export { shareChanges, type ShareChangesOptions } from "./lib/share-changes.ts";
