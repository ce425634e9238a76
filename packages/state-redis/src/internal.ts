/**
 * The parts of `createRedisStores` one by one. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { checkRedis, type RedisOptions } from "./lib/redis-client.ts";
export { createRedisEventStore } from "./lib/redis-event-store.ts";
export { createRedisStateStore, type RedisStateStoreOptions } from "./lib/redis-state-store.ts";
export { createRedisUploadStore } from "./lib/redis-upload-store.ts";
export { shareChanges } from "./lib/share-changes.ts";
