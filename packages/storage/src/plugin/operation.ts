import type { ByteRange } from "@sluice/core";
import { ensureKey, quoteKey } from "../contract/key.ts";
import { ensureRange } from "./range.ts";

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
