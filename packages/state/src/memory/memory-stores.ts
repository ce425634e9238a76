import type { EventStoreLimits } from "../contract/event-store.ts";
import type { Stores } from "../contract/stores.ts";
import { createMemoryEventStore } from "./memory-event-store.ts";
import { createMemoryStateStore, type MemoryStateStoreOptions } from "./memory-state-store.ts";
import { createMemoryUploadStore } from "./memory-upload-store.ts";

/** Options of {@link createMemoryStores}. */
export interface MemoryStoresOptions extends MemoryStateStoreOptions {
  /** Bounds of event streams. */
  readonly events?: EventStoreLimits;
}

/**
 * The stores of a single process, in its memory: what they keep ends with the process. Throws a `TypeError` in a worker
 * of `node:cluster`, whose siblings would each redeem the same grant, and a `RangeError` for an invalid bound.
 */
export function createMemoryStores({ events, ...limits }: MemoryStoresOptions = {}): Stores {
  return {
    state: createMemoryStateStore(limits),
    uploads: createMemoryUploadStore(),
    events: createMemoryEventStore(events),
  };
}
