import type { StorageBackend } from "@sluice/storage";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { SpoolTarget } from "../spool/spooled-string.ts";

/** What one session has of a hold. */
export interface HoldShare extends SpoolTarget {
  /** The session is over: its results stay until their time, or until another session needs the room. Idempotent. */
  end(): void;
}

/** Keeps large results until their time: in memory, or in a storage. Several sessions share one. */
export interface ResultHold {
  /**
   * Begins the share of a session. If a result has no room, others are evicted: first those of ended sessions, then
   * those of sessions that have more, in each the unopened ones first. A result that is being read stays.
   */
  openShare(): HoldShare;
  /** What is held, to be read: `createSluice({ storage: hold.storage, baseUri: hold.baseUri, links: {} })` serves it. */
  readonly storage: StorageBackend;
  readonly baseUri: string;
  /**
   * Says that a result has a link until then, in unix milliseconds: it is kept so long, and for its age at least. One
   * that nothing keeps is removed after a minute.
   */
  keep(uri: string, until: number): void;
  /** Removes a result. Idempotent. */
  drop(uri: string): Promise<void>;
  /** Removes all results of this process. A storage that was given stays open. */
  close(): Promise<void>;
}

/** Base of the URIs of held results; hosts see links, and never these. */
export const heldBase = "held://results/";

/** A storage that writes and removes. */
export type WritableStorage = StorageBackend & Required<Pick<StorageBackend, "write" | "remove">>;

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
