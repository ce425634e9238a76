import { type ByteRange, SluiceError } from "@sluice/core";

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
