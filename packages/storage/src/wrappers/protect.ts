import type { StorageBackend, WritableBackend } from "../contract/backend.ts";
import { withThrottle, type ThrottleOptions } from "./throttle.ts";
import { withValidation, type ValidateOptions } from "./validate.ts";
import { withResumedReads, type ResumableOptions } from "./resumable.ts";
import { withRetry, type RetryOptions } from "./retry.ts";
import { withDigestCheck, type VerifyDigestOptions } from "./verify-digest.ts";

/** Settings of the five wrappers of {@link protect}; each has a default that suits a gateway. */
export interface ProtectOptions
  extends ValidateOptions, ThrottleOptions, RetryOptions, ResumableOptions, VerifyDigestOptions {}

/**
 * Puts the five wrappers around a backend, innermost first: {@link withValidation} checks what goes in
 * and what comes out, {@link withThrottle} pauses everything while the service throttles, {@link withRetry}
 * repeats what failed before the first byte, {@link withResumedReads} continues bodies that broke, and
 * {@link withDigestCheck} compares the whole with its digest. Operations that the backend lacks stay absent.
 * A protected backend is returned unchanged and keeps its first options.
 */
export function protect(backend: WritableBackend, options?: ProtectOptions): WritableBackend;
export function protect(backend: StorageBackend, options?: ProtectOptions): StorageBackend;
export function protect(backend: StorageBackend, options: ProtectOptions = {}): StorageBackend {
  if (protectedBackends.has(backend)) return backend;
  const patient = withRetry(withThrottle(withValidation(backend, options), options), options);
  const whole = withDigestCheck(withResumedReads(patient, options), options);
  protectedBackends.add(whole);
  return whole;
}

const protectedBackends = new WeakSet<StorageBackend>();
