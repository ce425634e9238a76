import { definedMembers, discardSource, formatEntityTag, SluiceError } from "@sluice/core";
import type { CallOptions, OpenedObject, OpenOptions } from "@sluice/storage";
import type { AuthorizedStorage } from "../storage/authorized-storage.ts";
import { advised } from "../faults/advice.ts";
import type { AskedRange } from "./read-range.ts";

interface VersionRequest {
  readonly key: string;
  readonly range?: AskedRange;
  /** Entity tag of the version that it must be. */
  readonly etag?: string;
  readonly signal?: AbortSignal;
}

/**
 * Opens the version that a client asks for, or, of a range without a version, one whose version storage names where it can.
 * Rejects with what a client may learn.
 */
export async function openVersion(
  storage: AuthorizedStorage,
  { key, range, etag, signal }: VersionRequest,
  options: OpenOptions = {},
): Promise<OpenedObject> {
  const call = definedMembers({ signal });
  try {
    if (etag !== undefined) {
      const ifMatch = await versionOf(storage, { key, etag, call });
      return await storage.open(key, { ...options, ...call, ifMatch });
    }
    const opened = await storage.open(key, { ...options, ...call });
    if (range === undefined || opened.info.etag !== undefined) return opened;
    // storage may name the version a moment later: without it nothing tells that the next part is of another
    await discardSource(opened);
    const { etag: named } = await storage.describe(key, call);
    return await storage.open(key, { ...options, ...call, ...definedMembers({ ifMatch: named }) });
  } catch (error) {
    throw readFault(error);
  }
}

/** What a reader may learn of a fault of storage, with advice. */
export function readFault(error: unknown): unknown {
  if (SluiceError.is(error) && error.code === "precondition_failed")
    return advised("invalid_argument", "The resource has changed: read it from the start", error);
  if (SluiceError.is(error) && error.code === "range_not_satisfiable")
    return advised(
      "invalid_argument",
      error.size === undefined
        ? "The range begins behind the end of the resource"
        : `The resource has ${error.size} bytes`,
      error,
    );
  return error;
}

/** The etag of storage behind the entity tag that a client has; a tag does not tell it alone. */
async function versionOf(
  storage: AuthorizedStorage,
  { key, etag, call }: { key: string; etag: string; call: CallOptions },
): Promise<string> {
  const info = await storage.describe(key, call);
  if (info.etag !== undefined && formatEntityTag(info.etag) === etag) return info.etag;
  throw new SluiceError("precondition_failed", "sluice: read: another version is there");
}
