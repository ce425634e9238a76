import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { adviceOf } from "./advice.ts";

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
