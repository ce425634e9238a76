import { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "@sluice/core";
import { toolError } from "@sluice/server/internal";

/** The code of an error; `internal` for errors of others. */
export function codeOf(error: unknown): SluiceErrorCode {
  return SluiceError.is(error) ? error.code : "internal";
}

/** Origin of the errors whose message a client of uploads may read. */
export const uploadsOrigin = "uploads";

const prefix = "uploads: ";

/** An error whose message a client of uploads may read. */
export function uploadError(
  code: SluiceErrorCode,
  message: string,
  options: SluiceErrorOptions = {},
): SluiceError {
  return new SluiceError(code, prefix + message, { ...options, origin: uploadsOrigin });
}

/**
 * The error for a tool to throw in place of one of storage or of a store: it has the same code, and a message that a model
 * may read. Errors of other classes are the author's own mistakes, or those of the protocol, and stay.
 */
export function errorForTool(error: unknown, onError: (error: unknown) => void): unknown {
  if (!SluiceError.is(error) || error.origin === uploadsOrigin) return error;
  return toolError(error, { about: uploadsOrigin, origin: uploadsOrigin, onError });
}

/** The message of such an error for its client, without the prefix. */
export function detailOf(error: SluiceError): string {
  return error.message.slice(prefix.length);
}

/**
 * The slot's rules refuse the file for good: no further step can change that. Errors of storage do not count, whatever
 * their code: it may take the same bytes later.
 */
export class RefusedFile extends SluiceError {
  constructor(code: SluiceErrorCode, message: string) {
    super(code, prefix + message, { origin: uploadsOrigin });
  }
}
