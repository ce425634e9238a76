import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { excerpt, retryWords } from "@sluice/core/internal";

/** An error with advice that goes to the client. */
class AdvisedError extends SluiceError {
  readonly advice: string;

  constructor(code: SluiceErrorCode, advice: string, cause: unknown) {
    super(code, `sluice: ${advice}`, { cause });
    this.advice = advice;
  }
}

/** An error about a resource that is too large to read, and that no tool reads as text. */
class TooLargeBinary extends SluiceError {}

/** The error of a resource that is too large to read at once. `size` is in bytes, where it is known. */
export function tooLargeToRead(size: number | undefined, isBinary: boolean): SluiceError {
  const Kind = isBinary ? TooLargeBinary : SluiceError;
  return new Kind("too_large", "sluice: read: larger than maxReadBytes", { size });
}

/** Tools that a model may be told to call, by their names on a server. */
export interface AdvisedTools {
  readonly read: string | undefined;
  readonly link: string | undefined;
}

interface CallerAbilities {
  readonly tools?: AdvisedTools | undefined;
  /** The client declared that it takes streams. */
  readonly takesStreams?: boolean;
}

/** What a caller may be told to do about an error: `data.suggestion` of the response, and what a tool says. */
export function adviceOf(
  error: unknown,
  { tools, takesStreams = false }: CallerAbilities = {},
): string | undefined {
  if (error instanceof AdvisedError) return error.advice;
  if (!SluiceError.is(error) || error.code !== "too_large") return undefined;
  // SEP-2532, in its own words
  if (takesStreams) return "Use resources/stream for this resource";
  const size = error.size === undefined ? "" : `It has ${error.size} bytes: `;
  const { read, link } = tools ?? {};
  const ways = [
    ...(read === undefined || error instanceof TooLargeBinary
      ? []
      : [`call ${read} with a range, such as "lines 1-200"`]),
    ...(link === undefined ? [] : [`call ${link} for all of it`]),
  ];
  return size + (ways.join(", or ") || 'ask for a range, such as "bytes 0-65535", in _meta');
}

/** An error whose advice goes to the client: it must not name anything the client may not know. */
export function advised(code: SluiceErrorCode, suggestion: string, cause?: unknown): SluiceError {
  return new AdvisedError(code, suggestion, cause);
}

/** An error as a model may read it. Hidden and missing look alike, and it says nothing of storage or of the state store. */
export interface ToolFault {
  readonly code: SluiceErrorCode;
  /** What was wrong, or what to do. */
  readonly text: string;
  /** Nothing that the caller could change: worth a look in the log. */
  readonly isServerFault: boolean;
}

/**
 * What a tool may say about an error; the SDK sends the message of every error that a tool throws. Messages of errors of
 * `origin` are written for callers, and go out behind their prefix.
 */
export function toolFault(error: unknown, origin?: string): ToolFault {
  const code = SluiceError.is(error) ? error.code : "internal";
  const written = adviceOf(error) ?? messageFor(error, origin) ?? sentences[code];
  const what = code === "throttled" ? "Too many requests" : "Not possible at the moment";
  const text = written ?? `${what}: ${retryWords(error)}`;
  const isServerFault = written === undefined ? !busy.has(code) : code === "no_space";
  return { code, text, isServerFault };
}

interface ToolErrorOptions {
  /** Begins the message, such as the URI. */
  readonly about: string;
  /** See {@link toolFault}; the new error has it, too. */
  readonly origin?: string;
  /** Receives faults of ours. */
  readonly onError: (error: unknown) => void;
}

/** The error for a tool's caller: same code, a message that may be shown, the original as cause. */
export function toolError(
  error: unknown,
  { about, origin, onError }: ToolErrorOptions,
): SluiceError {
  const { code, text, isServerFault } = toolFault(error, origin);
  if (isServerFault) onError(error);
  const { retryAfterMs, size } = SluiceError.is(error) ? error : {};
  return new SluiceError(code, `${excerpt(about)}: ${text}`, {
    cause: error,
    retryAfterMs,
    size,
    origin,
  });
}

function messageFor(error: unknown, origin: string | undefined): string | undefined {
  if (!SluiceError.is(error) || origin === undefined || error.origin !== origin) return undefined;
  const wait = error.retryAfterMs === undefined ? "" : `; ${retryWords(error)}`;
  return error.message.slice(`${origin}: `.length) + wait;
}

const busy: ReadonlySet<SluiceErrorCode> = new Set(["throttled", "unavailable", "timeout"]);

const sentences: Partial<Record<SluiceErrorCode, string>> = {
  not_found: "No such resource",
  invalid_argument: "Not a URI of a resource",
  permission_denied: "Not permitted",
  unauthenticated: "Not permitted",
  unsupported: "Not a file",
  no_space: "The server has no room for it: its operator must make some",
};
