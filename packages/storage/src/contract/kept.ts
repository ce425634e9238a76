import type { ObjectInfo, StorageBackend } from "./backend.ts";

/** A whole object that lies in memory, as it is stored now. */
export interface KeptObject {
  readonly info: ObjectInfo;
  /** All of it. Shared: never write to it. */
  readonly bytes: Uint8Array;
}

/**
 * Finds in memory the result of `open` of a whole object, or of its `describe`, without waiting for anything: the
 * same `KeptObject` while the version is the same, and another `info` for another. `undefined` if only the
 * operation can tell. Never throws.
 */
export type FindKept = (key: string) => KeptObject | undefined;

type Looking = StorageBackend["open"] | StorageBackend["describe"];

const finders = new WeakMap<Looking, FindKept>();

/**
 * Says that `find` gives the result of this `open` or `describe`. It belongs to the function, not
 * to the backend: a wrapper that puts another one in its place is never passed by.
 */
export function withKept<Operation extends Looking>(
  operation: Operation,
  find: FindKept | undefined,
): Operation {
  if (find) finders.set(operation, find);
  return operation;
}

/** Finds results of a backend's `open` in memory; `undefined` if nothing does. */
export function keptBehind(backend: Pick<StorageBackend, "open">): FindKept | undefined {
  // oxlint-disable-next-line unbound-method -- it is looked up, never called
  return finders.get(backend.open);
}

/** Finds results of a backend's `describe` in memory, as `info`; `undefined` if nothing does. */
export function describedBehind(backend: Pick<StorageBackend, "describe">): FindKept | undefined {
  // oxlint-disable-next-line unbound-method -- it is looked up, never called
  return finders.get(backend.describe);
}
