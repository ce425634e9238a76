import type { StorageBackend } from "@sluice/storage";
import { createHold } from "./create-hold.ts";
import { storageFault } from "./hold-fault.ts";
import type { ResultHold } from "./result-hold.ts";
import type { WritableStorage } from "./writable-storage.ts";

/** Options of {@link createStorageHold}. */
export interface StorageHoldOptions {
  /** A storage that writes and removes, such as a bucket. Results lie below `held/` in it; nothing else is touched. */
  readonly storage: StorageBackend;
  /** Most bytes of results together, those of other processes too. Default: 10 GiB. */
  readonly maxBytes?: number | undefined;
  /** How long a result is kept, in milliseconds. Its link may keep it longer. Default: 15 minutes. */
  readonly maxAgeMs?: number | undefined;
  /** Gets faults of the storage, of which hosts hear no cause. Default: `console.error`. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/**
 * Keeps large results in a storage. Several processes may share it: each removes what it wrote when its time is over, and
 * a quarter of an hour later what a process left that ended. A result that has no room fails with `no_space`.
 *
 * Throws a `TypeError` for a storage that does not write and remove, and a `RangeError` for an option that is no number
 * above 0.
 */
export function createStorageHold(options: StorageHoldOptions): ResultHold {
  const { storage, maxBytes = 10 * 2 ** 30, maxAgeMs = 15 * 60_000 } = options;
  const { onError = (error) => console.error(error) } = options;
  if (!isWritable(storage))
    throw new TypeError(
      "createStorageHold: the storage must write and remove; create it with writable: true",
    );
  return createHold({
    storage,
    maxBytes,
    advice: "raise --max-held",
    maxAgeMs,
    isShared: true,
    faultOf: (error) => storageFault(error, onError),
    onError,
  });
}

function isWritable(storage: StorageBackend): storage is WritableStorage {
  return storage.write !== undefined && storage.remove !== undefined;
}
