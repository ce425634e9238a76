import { SluiceError, type SluiceErrorCode } from "@sluice/core";

/** Why a store refuses a call. */
export type StoreRefusal =
  | "asked"
  | "full"
  | "no_stream"
  | "record_exists"
  | "share_full"
  | "stream_exists"
  | "stream_over"
  | "stream_taken"
  | "too_large";

/**
 * The error of a refused call, worded alike in every store. `operation` begins its message. `retryAfterMs` goes with
 * `full` (default: 1 s) and `share_full`.
 */
export function storeError(
  operation: string,
  refusal: StoreRefusal,
  retryAfterMs: number | undefined = refusal === "full" ? 1_000 : undefined,
): SluiceError {
  const [code, why] = refusals[refusal];
  return new SluiceError(code, `${operation}: ${why}`, { retryAfterMs });
}

const refusals: Readonly<Record<StoreRefusal, readonly [SluiceErrorCode, string]>> = {
  asked: ["already_exists", "this was asked before"],
  full: ["unavailable", "full of live entries; try again later"],
  no_stream: ["not_found", "no such stream"],
  record_exists: ["already_exists", "a record with this id exists already"],
  share_full: [
    "throttled",
    "the caller has as many live records as one may have; use them or wait for their end",
  ],
  stream_exists: ["already_exists", "this stream exists already"],
  stream_over: ["precondition_failed", "the stream has ended"],
  stream_taken: ["precondition_failed", "another writer has taken the stream"],
  too_large: ["too_large", "more than one stream may keep; raise maxEvents or maxBytes"],
};
