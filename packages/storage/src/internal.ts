/**
 * The wrappers of `protect` one by one, and with the clock and the random numbers of a test. Outside of the promise of
 * versions: it changes in any release.
 * @module
 */
import type { StorageBackend } from "./contract/backend.ts";
import { type CacheOptions, withCache } from "./wrappers/with-cache.ts";
import { protect, type ProtectOptions } from "./wrappers/protect.ts";
import type { Surroundings } from "./wrappers/wrap.ts";

export { formatUnlisted, readUnlisted, UnlistedTally } from "./contract/unlisted.ts";
export { withDigestCheck } from "./wrappers/verify-digest.ts";
export { withResumedReads } from "./wrappers/resumable.ts";
export { withRetry, type RetryOptions } from "./wrappers/retry.ts";
export { withThrottle } from "./wrappers/throttle.ts";
export { withValidation, type ValidateOptions } from "./wrappers/validate.ts";

/** `protect` with surroundings. */
export const protectIn: (
  backend: StorageBackend,
  options: ProtectOptions & Surroundings,
) => StorageBackend = protect;

/** `withCache` with surroundings. */
export const cacheIn: (
  backend: StorageBackend,
  options: CacheOptions & Surroundings,
) => StorageBackend = withCache;
