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
