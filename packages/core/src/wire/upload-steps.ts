// Proxies limit the body of one request, such as nginx to 1 MiB and Cloudflare to 100 MB: a file gets through in steps.

/** Smallest step that is tried, in bytes. */
export const MIN_STEP_BYTES: number = 2 ** 16;

/** Throws a `RangeError` for an option `maxStepBytes` that is not a whole number from 64 KiB; absent is fine. */
export function ensureStepBytes(owner: string, maxStepBytes: number | undefined): void {
  const isFine = Number.isSafeInteger(maxStepBytes) && maxStepBytes! >= MIN_STEP_BYTES;
  if (maxStepBytes === undefined || isFine) return;
  throw new RangeError(`${owner}: maxStepBytes must be a whole number from ${MIN_STEP_BYTES}`);
}

const firstStepBytes = 2 ** 26;

/** A response to one step: its status, and the JSON of its body. */
interface StepAnswer {
  readonly status: number;
  readonly json?: unknown;
}

/**
 * Bytes of the next step after a proxy's 413 to one of `refusedBytes`: 64 MiB, or a quarter of that over and over until it is
 * less. `undefined` below 64 KiB, and for a response that is not a 413, or has the `reason` of an upload endpoint of ours,
 * which limits the file.
 */
export function smallerStep(
  { status, json }: StepAnswer,
  refusedBytes: number,
): number | undefined {
  const { reason } = (json ?? {}) as { readonly reason?: unknown };
  if (status !== 413 || reason !== undefined) return undefined;
  let step = firstStepBytes;
  while (step >= refusedBytes) step /= 4;
  return step < MIN_STEP_BYTES ? undefined : step;
}
