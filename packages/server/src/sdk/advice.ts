import { SluiceError, type SluiceErrorCode } from "@sluice/core";

const advice = new WeakMap<object, string>();

/** What a caller may be told to do about an error: `data.suggestion` of the answer, and what a tool says. */
export function adviceOf(error: unknown, isStreaming = false): string | undefined {
  if (!SluiceError.is(error)) return undefined;
  if (error.code !== "too_large" || advice.has(error)) return advice.get(error);
  return isStreaming
    ? "Use resources/stream for this resource"
    : "Ask for a range of this resource";
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
