import type { StorageBackend } from "../contract/backend.ts";
import { throttle, type ThrottleOptions } from "./throttle.ts";
import { validate, type ValidateOptions } from "./validate.ts";
import { resumable, type ResumableOptions } from "./resumable.ts";
import { retry, type RetryOptions } from "./retry.ts";
import { verifyDigest, type VerifyDigestOptions } from "./verify-digest.ts";

/** Settings of all five wrappers; each has a default that suits a gateway. */
export interface ProtectOptions
  extends ValidateOptions, ThrottleOptions, RetryOptions, ResumableOptions, VerifyDigestOptions {}

/**
 * Puts the five wrappers around a backend, innermost first: {@link validate} checks what goes in
 * and what comes out, {@link throttle} pauses everything while the service throttles, {@link retry}
 * repeats what failed before the first byte, {@link resumable} continues bodies that broke, and
 * {@link verifyDigest} compares the whole with its digest. Operations that the backend lacks stay absent.
 * A protected backend is returned unchanged and keeps its first options.
 */
export function protect(backend: StorageBackend, options: ProtectOptions = {}): StorageBackend {
  if (protectedBackends.has(backend)) return backend;
  const patient = retry(throttle(validate(backend, options), options), options);
  const whole = verifyDigest(resumable(patient, options), options);
  protectedBackends.add(whole);
  return whole;
}

const protectedBackends = new WeakSet<StorageBackend>();
