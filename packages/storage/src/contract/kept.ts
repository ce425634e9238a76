import type { ObjectInfo, StorageBackend } from "./backend.ts";

/** A whole object that lies in memory, as it is stored now. */
export interface KeptObject {
  readonly info: ObjectInfo;
  /** All of it. Shared: never write to it. */
  readonly bytes: Uint8Array;
}

/**
 * Finds in memory what `open` would give of a whole object, without waiting for anything: the same `KeptObject` while the
 * version is the same, and another `info` for another. `undefined` where only `open` can tell. Never throws.
 */
export type FindKept = (key: string) => KeptObject | undefined;

type Open = StorageBackend["open"];

const finders = new WeakMap<Open, FindKept>();

/**
 * Says that `find` gives what this `open` would give. It belongs to the function, not to the backend: a wrapper that puts
 * another `open` in its place is never passed by.
 */
export function withKept(open: Open, find: FindKept | undefined): Open {
  if (find) finders.set(open, find);
  return open;
}

/** What finds in memory what the `open` of a backend would give; `undefined` where nothing does. */
export function keptBehind(backend: Pick<StorageBackend, "open">): FindKept | undefined {
  // oxlint-disable-next-line unbound-method -- it is looked up, never called
  return finders.get(backend.open);
}
