import { SluiceError } from "@sluice/core";

/**
 * How many objects a page may have: the caller's `limit`, at most `most`. Throws `invalid_argument` unless the limit is
 * a whole number from 1.
 */
export function resolveLimit(limit: number | undefined, most: number, operation: string): number {
  if (limit === undefined) return most;
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new SluiceError("invalid_argument", `${operation}: limit ${limit} is not at least 1`);
  return Math.min(limit, most);
}
