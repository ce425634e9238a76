import { type ByteRange, SluiceError } from "@sluice/core";
import { ensureKey, quoteKey } from "../contract/key.ts";

/** What {@link beginOperation} looks at; the options of every operation fit. */
export interface OperationOptions {
  readonly signal?: AbortSignal | undefined;
  readonly range?: ByteRange | undefined;
}

/**
 * Begins a call about one key: throws `signal.reason` after an abort, and `invalid_argument` for an illegal key or
 * range, before the service sees them. Gives the start of the call's messages, for `s3: open` such as `s3: open "a.txt"`.
 */
export function beginOperation(
  method: string,
  key: string,
  options: OperationOptions = {},
): string {
  options.signal?.throwIfAborted();
  ensureKey(key, method);
  const operation = `${method} ${quoteKey(key)}`;
  if (options.range) ensureRange(options.range, operation);
  return operation;
}

/**
 * Throws `invalid_argument` unless the bounds are safe integers from 0 and `start` is not
 * beyond `end`.
 */
export function ensureRange(range: ByteRange, operation: string): void {
  const { start, end } = range;
  if (!isOffset(start) || (end !== undefined && (!isOffset(end) || end < start)))
    throw new SluiceError(
      "invalid_argument",
      `${operation}: [${start}, ${end}) is not a byte range`,
    );
}

/**
 * The range within an object of `size` bytes: the end filled in and clamped. A malformed range
 * throws `invalid_argument`; one that starts at or beyond the end `range_not_satisfiable`.
 */
export function resolveRange(
  range: ByteRange,
  size: number,
  operation: string,
): Required<ByteRange> {
  ensureRange(range, operation);
  const { start } = range;
  if (start >= size)
    throw new SluiceError(
      "range_not_satisfiable",
      `${operation}: ${start} is beyond the end (${size})`,
      {
        size,
      },
    );
  return { start, end: Math.min(range.end ?? size, size) };
}

function isOffset(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
