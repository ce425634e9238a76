import type { ObjectInfo, StorageBackend } from "./backend.ts";

/** A whole object that lies in memory, as it is stored now. */
export interface KeptObject {
  readonly info: ObjectInfo;
  /** All of it. Shared: never write to it. */
  readonly bytes: Uint8Array;
}

/**
 * Finds in memory what `open` would give of a whole object, or `describe` of it, without waiting for anything: the same
 * `KeptObject` while the version is the same, and another `info` for another. `undefined` where only the operation can tell.
 * Never throws.
 */
export type FindKept = (key: string) => KeptObject | undefined;

type Looking = StorageBackend["open"] | StorageBackend["describe"];

const finders = new WeakMap<Looking, FindKept>();

/**
 * Says that `find` gives what this `open` or `describe` would give. It belongs to the function, not to the backend: a wrapper
 * that puts another one in its place is never passed by.
 */
export function withKept<Operation extends Looking>(
  operation: Operation,
  find: FindKept | undefined,
): Operation {
  if (find) finders.set(operation, find);
  return operation;
}

/** What finds in memory what the `open` of a backend would give; `undefined` where nothing does. */
export function keptBehind(backend: Pick<StorageBackend, "open">): FindKept | undefined {
  // oxlint-disable-next-line unbound-method -- it is looked up, never called
  return finders.get(backend.open);
}

/** What finds in memory, as its `info`, what the `describe` of a backend would give; `undefined` where nothing does. */
export function describedBehind(backend: Pick<StorageBackend, "describe">): FindKept | undefined {
  // oxlint-disable-next-line unbound-method -- it is looked up, never called
  return finders.get(backend.describe);
}
