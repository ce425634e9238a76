const codes = [
  "not_found",
  "permission_denied",
  "unauthenticated",
  "invalid_argument",
  "unsupported",
  "precondition_failed",
  "range_not_satisfiable",
  "too_large",
  "expired",
  "already_exists",
  "no_space",
  "throttled",
  "unavailable",
  "timeout",
  "interrupted",
  "corrupt",
  "untrusted",
  "protocol",
  "internal",
] as const;

/**
 * What went wrong, by cause. The set is closed: a code names a cause, never an operation, so that
 * callers can switch on it and translations to HTTP and JSON-RPC are one table each.
 *
 * - `not_found` — no such object, or the caller may not know that it exists
 * - `permission_denied` — the caller is known and may not
 * - `unauthenticated` — credentials are missing, wrong or expired
 * - `invalid_argument` — the caller passed something malformed
 * - `unsupported` — it exists but cannot be done here (a directory, a peer without streaming)
 * - `precondition_failed` — the object is not the version that was asked for
 * - `range_not_satisfiable` — the range starts at or beyond the end (`size` tells where that is)
 * - `too_large` — over a size limit
 * - `expired` — the permission was real and has expired
 * - `already_exists` — the target is there and was not to be replaced
 * - `no_space` — the disk or quota is full
 * - `throttled` — slow down (`retryAfterMs` tells by how much, when known)
 * - `unavailable` — the service is down or could not be reached
 * - `timeout` — a deadline passed without enough progress
 * - `interrupted` — the bytes stopped before the end
 * - `corrupt` — the bytes are not the ones that were promised
 * - `untrusted` — an address was refused before anything was sent to it
 * - `protocol` — the peer broke the protocol
 * - `internal` — our own fault
 */
export type SluiceErrorCode = (typeof codes)[number];

const codeSet: ReadonlySet<unknown> = new Set(codes);
const retryable: ReadonlySet<unknown> = new Set([
  "throttled",
  "unavailable",
  "timeout",
  "interrupted",
]);

/** Members of a {@link SluiceError} besides its code and message. */
export interface SluiceErrorOptions {
  /** The underlying fault. For logs only: it never goes over the wire. */
  readonly cause?: unknown;
  /** Milliseconds to wait before another try, as the failing service said. */
  readonly retryAfterMs?: number | undefined;
  /** Size in bytes of the whole object, with `range_not_satisfiable` and `too_large`. */
  readonly size?: number | undefined;
  /** Name of the part of a server or client that raised it, such as `uploads`. Default: none. */
  readonly origin?: string | undefined;
}

/**
 * The one error class of Sluice. The message starts with the part and its operation
 * (`fs: open "a/b.pdf": …`) and never holds a secret, a token or a signed URL.
 *
 * An abort is not a `SluiceError`: operations reject with `signal.reason`, the same object.
 */
export class SluiceError extends Error {
  override readonly name = "SluiceError";
  /** The cause, from a closed set. */
  readonly code: SluiceErrorCode;
  /** Milliseconds to wait before another try, when the failing service said so. */
  declare readonly retryAfterMs?: number;
  /** Size in bytes of the whole object, where it helps the caller. */
  declare readonly size?: number;
  /** Name of the part that raised it. Callers decide by the code and by this, never by the message. */
  declare readonly origin?: string;

  constructor(code: SluiceErrorCode, message: string, options: SluiceErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs;
    if (options.size !== undefined) this.size = options.size;
    if (options.origin !== undefined) this.origin = options.origin;
  }

  /** True when the same call may succeed later: `throttled`, `unavailable`, `timeout`, `interrupted`. */
  get retryable(): boolean {
    return retryable.has(this.code);
  }

  /** Recognises a Sluice error by its shape, even one of another installed copy or realm. */
  static is(error: unknown): error is SluiceError {
    return (
      typeof error === "object" &&
      error !== null &&
      (error as { name?: unknown }).name === "SluiceError" &&
      codeSet.has((error as { code?: unknown }).code)
    );
  }
}

/** When to retry after an error, in words for a person or a model. */
export function retryWords(error: unknown): string {
  const { retryAfterMs } = SluiceError.is(error) ? error : {};
  if (retryAfterMs === undefined) return "try again later";
  return `try again in ${Math.max(1, Math.ceil(retryAfterMs / 1_000))} s`;
}

/** An HTTP response without the bytes, as a Sluice error. The server's text is not in it. */
export function httpError(
  what: string,
  status: number,
  options?: Pick<SluiceErrorOptions, "retryAfterMs" | "cause">,
): SluiceError {
  const [code, hint] = meaningOf(status);
  return new SluiceError(code, `client: ${what}: ${hint} (HTTP ${status})`, options);
}

/** The code of an HTTP response without the bytes. */
export function codeOfStatus(status: number): SluiceErrorCode {
  const [code] = meaningOf(status);
  return code;
}

const rows: ReadonlyMap<number, readonly [SluiceErrorCode, string]> = new Map([
  [400, ["protocol", "the server refused the request"]],
  [401, ["unauthenticated", "sign in again"]],
  [403, ["permission_denied", "ask for access"]],
  [404, ["not_found", "there is no such resource, or the link is used up"]],
  [408, ["timeout", "the server timed out; try again"]],
  [410, ["expired", "the link expired; ask for a new one"]],
  [412, ["precondition_failed", "the resource changed; start again"]],
  [413, ["too_large", "larger than the server allows"]],
  [416, ["range_not_satisfiable", "the resource is shorter than it was; start again"]],
  [425, ["unavailable", "the server asks for a later retry"]],
  [429, ["throttled", "too many requests; try again later"]],
]);

function meaningOf(status: number): readonly [SluiceErrorCode, string] {
  const isFault = status >= 500;
  return (
    rows.get(status) ??
    (isFault
      ? ["unavailable", "the server failed; try again later"]
      : ["protocol", "an unexpected response"])
  );
}
