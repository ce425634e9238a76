import type { SluiceErrorCode } from "../errors/error.ts";

/** The facts that every state has. */
export interface TransferProgress {
  /** Bytes kept, from byte 0 on and without a gap. When it falls to 0, discard what was written. */
  readonly receivedBytes: number;
  /** Bytes of the whole object, once a response told. */
  readonly size?: number | undefined;
  /** Strong tag, with quotes, of the version that the kept bytes belong to. */
  readonly etag?: string | undefined;
  /** The last authorization gave a URL that can be fetched again. */
  readonly reusable: boolean;
  /** What was spent of the retry budgets. */
  readonly tries: SpentRetries;
}

/** Why a transfer failed for good. */
export interface TransferFailure {
  readonly code: SluiceErrorCode;
  /** Milliseconds after which the server would have another try, when it said so. */
  readonly retryAfterMs?: number | undefined;
}

/** Spent budgets. All but `restarts` begin anew with every 64 KiB of progress. */
export interface SpentRetries {
  readonly refreshes: number;
  readonly reissues: number;
  readonly attempts: number;
  /** Never forgiven: an object that changes for ever must not be fetched for ever. */
  readonly restarts: number;
  /** `receivedBytes` when the budgets last began anew. */
  readonly mark: number;
}
