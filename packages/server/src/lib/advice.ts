import { SluiceError, type SluiceErrorCode } from "@sluice/core";

const advice = new WeakMap<object, string>();

/** What a caller may be told to do about an error: `data.suggestion` of the answer, and what a tool says. */
export function adviceOf(error: unknown): string | undefined {
  if (!SluiceError.is(error)) return undefined;
  return (
    advice.get(error) ??
    (error.code === "too_large" ? "Use resources/stream for this resource" : undefined)
  );
}

/** An error whose advice goes to the client: it must not name anything the client may not know. */
export function advised(code: SluiceErrorCode, suggestion: string, cause?: unknown): SluiceError {
  const error = new SluiceError(code, `sluice: ${suggestion}`, { cause });
  advice.set(error, suggestion);
  return error;
}
