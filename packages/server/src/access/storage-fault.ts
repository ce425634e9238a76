import { SluiceError } from "@sluice/core";

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

/** For `catch` of calls of storage: throws what the fault means to a client. */
export function rethrowStorageFault(error: unknown): never {
  throw storageFault(error);
}
