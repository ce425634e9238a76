import type { Clock } from "@sluice/core/internal";
import {
  type BackendOperation,
  backendOperations,
  type ObjectWriter,
  type StepWriter,
  type StorageBackend,
  withKept,
  type WritableBackend,
} from "../contract/backend.ts";

/**
 * What to put in place of some operations. Each entry gets the operation of the inner backend,
 * bound to it, and gives the new one; it is not asked when the inner backend lacks the operation.
 */
export type Overrides = {
  readonly [O in BackendOperation]?: (
    inner: NonNullable<StorageBackend[O]>,
  ) => NonNullable<StorageBackend[O]>;
};

/**
 * A backend that behaves like `backend` except for the overridden operations. Absent operations stay absent, which
 * object spread and class prototypes do not guarantee; members outside the contract are not carried over. An
 * overridden `open` uses memory only if the override says so (`withKept`).
 */
export function wrapBackend(backend: WritableBackend, overrides: Overrides): WritableBackend;
export function wrapBackend(backend: StorageBackend, overrides: Overrides): StorageBackend;
export function wrapBackend(backend: StorageBackend, overrides: Overrides): StorageBackend {
  const wrapped: Record<string, unknown> = { name: backend.name };
  for (const operation of Object.keys(backendOperations) as BackendOperation[]) {
    const inner = backend[operation]?.bind(backend) as never;
    if (inner === undefined) continue;
    if (operation === "open") withKept(inner, backend.open.inMemory);
    wrapped[operation] = overrides[operation]?.(inner) ?? inner;
  }
  return wrapped as unknown as StorageBackend;
}

/** A writer that behaves like `writer` except for the given steps. */
export function wrapWriter(
  writer: ObjectWriter,
  steps: Partial<Pick<ObjectWriter, "write" | "commit">>,
): ObjectWriter {
  return {
    write: (chunk) => writer.write(chunk),
    commit: () => writer.commit(),
    abort: (reason) => writer.abort(reason),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
    ...steps,
  };
}

/** A writer of a step that behaves like `writer` except for the given calls. */
export function wrapStepWriter(
  writer: StepWriter,
  calls: Partial<Pick<StepWriter, "write" | "suspend" | "commit">>,
): StepWriter {
  return {
    id: writer.id,
    offset: writer.offset,
    write: (chunk) => writer.write(chunk),
    suspend: () => writer.suspend(),
    commit: () => writer.commit(),
    abort: () => writer.abort(),
    ...calls,
  };
}

/** What wrappers take from the machine. Only tests replace it: the public options leave it out. */
export interface Surroundings {
  /** Where waits and ages take their time from. Default: the platform's clock. */
  readonly clock?: Clock;
  /** A number in [0, 1), for the jitter. Default: `Math.random`. */
  readonly random?: () => number;
}
