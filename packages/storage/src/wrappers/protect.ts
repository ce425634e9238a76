import type { StorageBackend } from "../contract/backend.ts";
import { gate, type GateOptions } from "./gate.ts";
import { guard, type GuardOptions } from "./guard.ts";
import { resumable, type ResumableOptions } from "./resumable.ts";
import { retry, type RetryOptions } from "./retry.ts";
import { verified, type VerifiedOptions } from "./verified.ts";

/** Settings of all five wrappers; each has a default that suits a gateway. */
export interface ProtectOptions
  extends GuardOptions, GateOptions, RetryOptions, ResumableOptions, VerifiedOptions {}

/**
 * Puts the five wrappers around a backend, innermost first: {@link guard} checks what goes in
 * and what comes out, {@link gate} pauses everything while the service throttles, {@link retry}
 * repeats what failed before the first byte, {@link resumable} continues bodies that broke, and
 * {@link verified} compares the whole with its digest. Operations that the backend lacks stay absent.
 * A backend that is protected already is given back as it is, with the options of the first time.
 */
export function protect(backend: StorageBackend, options: ProtectOptions = {}): StorageBackend {
  if (protectedBackends.has(backend)) return backend;
  const patient = retry(gate(guard(backend, options), options), options);
  const whole = verified(resumable(patient, options), options);
  protectedBackends.add(whole);
  return whole;
}

const protectedBackends = new WeakSet<StorageBackend>();
