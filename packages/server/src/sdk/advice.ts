import { SluiceError, type SluiceErrorCode } from "@sluice/core";

const advice = new WeakMap<object, string>();

/** Errors about resources that no tool reads as text. */
const binaries = new WeakSet<object>();

/** The error of a resource that is too large to read at once. `size` is in bytes, where it is known. */
export function tooLargeToRead(size: number | undefined, isBinary: boolean): SluiceError {
  const error = new SluiceError("too_large", "sluice: read: larger than maxReadBytes", { size });
  if (isBinary) binaries.add(error);
  return error;
}

/** Tools that a model may be told to call, by their names on a server. */
export interface AdvisedTools {
  readonly read: string | undefined;
  readonly link: string | undefined;
}

/** What a caller can do. */
interface CallerMeans {
  readonly tools?: AdvisedTools | undefined;
  /** The client declared that it takes streams. */
  readonly takesStreams?: boolean;
}

/** What a caller may be told to do about an error: `data.suggestion` of the answer, and what a tool says. */
export function adviceOf(
  error: unknown,
  { tools, takesStreams = false }: CallerMeans = {},
): string | undefined {
  if (!SluiceError.is(error)) return undefined;
  if (error.code !== "too_large" || advice.has(error)) return advice.get(error);
  // SEP-2532, in its own words
  if (takesStreams) return "Use resources/stream for this resource";
  const size = error.size === undefined ? "" : `It has ${error.size} bytes: `;
  const { read, link } = tools ?? {};
  const ways = [
    ...(read === undefined || binaries.has(error)
      ? []
      : [`call ${read} with a range, such as "lines 1-200"`]),
    ...(link === undefined ? [] : [`call ${link} for all of it`]),
  ];
  return size + (ways.join(", or ") || 'ask for a range, such as "bytes 0-65535", in _meta');
}

/** An error whose advice goes to the client: it must not name anything the client may not know. */
export function advised(code: SluiceErrorCode, suggestion: string, cause?: unknown): SluiceError {
  const error = new SluiceError(code, `sluice: ${suggestion}`, { cause });
  advice.set(error, suggestion);
  return error;
}

/** An error as a model may read it. Hidden and missing look alike, and it says nothing of storage. */
export interface ToolFault {
  readonly code: SluiceErrorCode;
  /** What was wrong, or what to do. */
  readonly text: string;
  /** Nothing that the caller could change: worth a look in the log. */
  readonly isOurs: boolean;
}

/** What a tool may say about an error; the SDK sends the message of every error that a tool throws. */
export function toolFault(error: unknown): ToolFault {
  const code = SluiceError.is(error) ? error.code : "internal";
  const text = adviceOf(error) ?? sentences[code];
  return { code, text: text ?? "Cannot be read now: try again later", isOurs: text === undefined };
}

const sentences: Partial<Record<SluiceErrorCode, string>> = {
  not_found: "No such resource",
  invalid_argument: "Not a URI of a resource",
  permission_denied: "Not permitted",
  unauthenticated: "Not permitted",
  unsupported: "Not a file",
  throttled: "Too many requests: try again later",
  unavailable: "Cannot be read now: try again later",
  timeout: "Cannot be read now: try again later",
};
