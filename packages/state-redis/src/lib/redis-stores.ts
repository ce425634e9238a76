import { definedMembers } from "@sluice/core/internal";
import type { EventStoreLimits, Stores } from "@sluice/state";
import type { StorageBackend } from "@sluice/storage";
import { checkRedis } from "./redis-client.ts";
import { createRedisEventStore } from "./redis-event-store.ts";
import { createRedisStateStore, type RedisStateStoreOptions } from "./redis-state-store.ts";
import { createRedisUploadStore } from "./redis-upload-store.ts";
import { shareChanges, type ShareChangesOptions } from "./share-changes.ts";

/** Options of {@link createRedisStores}. */
export interface RedisStoresOptions extends RedisStateStoreOptions {
  /** Bounds of the event streams of all processes together, which must be given the same ones. */
  readonly events?: EventStoreLimits;
}

/** What processes share in one Redis. */
export interface RedisStores extends Stores {
  /**
   * Rejects for a Redis in which nothing can be kept: with `internal` if it may evict keys or its clock is too far off
   * that of this process, with `unavailable` if it cannot be reached. The stores check that by themselves at their first
   * call; a server that calls this before it listens refuses to start instead.
   */
  check(): Promise<void>;
  /**
   * A backend whose `watch` reports the changes that the watch of any process reports: a queue of change events gives
   * each of them to one process only. Backends of the same `name` in all processes get the same changes.
   */
  shareChanges(backend: StorageBackend, options: ShareChangesOptions): StorageBackend;
}

/**
 * The stores of any number of processes, in one Redis: give them to `createSluice` as `stores`, and uploads and resumable
 * streams take theirs from there. The client of Redis stays the caller's. Throws a `TypeError` for anything else than a
 * client, and a `RangeError` for a bound or a wait that cannot be.
 */
export function createRedisStores(options: RedisStoresOptions): RedisStores {
  const { events, durable, records, ...redis } = options;
  const grants = definedMembers({ durable, records });
  return {
    state: createRedisStateStore({ ...redis, ...grants }),
    uploads: createRedisUploadStore(redis),
    events: createRedisEventStore({ ...redis, ...events }),
    check: () => checkRedis(redis),
    shareChanges: (backend, sharing) => shareChanges(backend, redis, sharing),
  };
}
