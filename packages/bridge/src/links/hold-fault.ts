import { SluiceError, type SluiceErrorCode } from "@sluice/core";

const origin = "links";

/** A fault of a hold, in words for a host. */
export function ownFault(code: SluiceErrorCode, words: string): SluiceError {
  return new SluiceError(code, `bridge: links: ${words}`, { origin });
}

/** No room for another result. `advice` is for the operator. */
export function fullFault(maxBytes: number, advice: string): SluiceError {
  return ownFault(
    "no_space",
    `${maxBytes} bytes of large results are held, and no more may be; ask again in some minutes, or have the operator ${advice}`,
  );
}

/** The same for a fault of a storage: its messages name buckets and keys, which `onError` gets and hosts do not. */
export function storageFault(error: unknown, onError: (error: unknown) => void): SluiceError {
  if (SluiceError.is(error) && error.origin === origin) return error;
  onError(error);
  const code = SluiceError.is(error) ? error.code : "internal";
  return ownFault(
    code,
    `the storage of large results failed (${code}); try again, and tell the operator of this server`,
  );
}
