/** Bounds of a resumed stream. */
export interface ResumableFetchOptions {
  /** Milliseconds for one request, from its first byte to its result. Default: 1 h. */
  readonly totalMs?: number;
  /** Milliseconds until the headers of a response must be there. Default: 30 s. */
  readonly headersMs?: number;
  /** Milliseconds after which a connection that brings nothing is replaced by another. Default: 60 s. */
  readonly idleMs?: number;
  /** Milliseconds between two looks at a link while answers are being made: without them it would expire. Default: 60 s. */
  readonly renewIntervalMs?: number;
  /** Tries in a row that bring nothing. Default: 5. */
  readonly maxAttempts?: number;
  /**
   * Milliseconds before a retry, if the server names none; doubled after each failure. Default: 1
   * s.
   */
  readonly retryMs?: number;
  /** Longest wait that a server may ask for with `retry`, in milliseconds. Default: 60 s. */
  readonly maxRetryMs?: number;
  /** Maximum bytes of responses that wait for their turn. Default: 4 MiB. */
  readonly maxAnswerBytes?: number;
  /** Longest event, in characters. Default: 16 Mi. */
  readonly maxEventLength?: number;
}

const resumeDefaults: Required<ResumableFetchOptions> = {
  totalMs: 3_600_000,
  headersMs: 30_000,
  idleMs: 60_000,
  renewIntervalMs: 60_000,
  maxAttempts: 5,
  retryMs: 1_000,
  maxRetryMs: 60_000,
  maxAnswerBytes: 4 * 1024 * 1024,
  maxEventLength: 16 * 1024 * 1024,
};

/** Fills in absent bounds; throws a `RangeError` for invalid ones. */
export function readResumeOptions(options: ResumableFetchOptions): Required<ResumableFetchOptions> {
  const limits = { ...resumeDefaults, ...options };
  for (const [name, limit] of Object.entries(limits))
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > 2 ** 31 - 1)
      throw new RangeError(
        `client: withResumableFetch: ${name} must be a whole number from 1 to 2147483647`,
      );
  return limits;
}
