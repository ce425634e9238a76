import { SluiceError } from "@sluice/core";

/**
 * Thrown for a hidden resource, where storage throws for a missing one.
 * One object for all: making an error costs time that could be measured.
 */
export const hiddenFault: SluiceError = new SluiceError(
  "not_found",
  "sluice: access rules hide it",
);

/**
 * What a fault of storage means to a client. What the service says about permissions concerns
 * the server's own credentials: a client learns neither that, nor that the object exists.
 */
export function storageFault(error: unknown): unknown {
  if (!SluiceError.is(error)) return error;
  if (error.code === "permission_denied")
    return new SluiceError("not_found", "sluice: storage denies it", { cause: error });
  if (error.code === "unauthenticated")
    return new SluiceError("unavailable", "sluice: storage refuses our credentials", {
      cause: error,
    });
  return error;
}

/** For `catch` of calls of storage that is not authorized: throws what the fault means to a client. */
export function rethrowStorageFault(error: unknown): never {
  throw storageFault(error);
}

/** A folder is not a resource: a hidden one must look like a missing one. */
export function rethrowAsAbsent(error: unknown): never {
  if (!isUnsupported(error)) throw error;
  throw new SluiceError("not_found", "sluice: not an object", { cause: error });
}

export function isUnsupported(error: unknown): boolean {
  return SluiceError.is(error) && error.code === "unsupported";
}

/** A storage that is down is down for missing and hidden objects alike. */
export function rethrowUnlessAbsent(error: unknown): undefined {
  if (SluiceError.is(error) && absences.has(error.code)) return undefined;
  throw error;
}

/** What services say of a missing object; some deny it to callers that may not list. */
const absences: ReadonlySet<string> = new Set(["not_found", "permission_denied"]);
