import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { toStrongEtag } from "@sluice/storage/plugin";

/** The common members of Azure's answers about one blob. */
export interface BlobFacts {
  readonly etag?: string | undefined;
  readonly lastModified?: Date | undefined;
  readonly contentType?: string | undefined;
  readonly contentEncoding?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly accessTier?: string | undefined;
}

/**
 * The metadata of a blob. The etag changes with every write, even one of only metadata. `md5` is
 * that of the whole blob, as a writer stored it.
 */
export function toObjectInfo(
  key: string,
  size: number,
  facts: BlobFacts,
  md5: Uint8Array | undefined,
): SizedInfo {
  const { lastModified, contentType, contentEncoding } = facts;
  return definedMembers({
    key,
    size,
    etag: toStrongEtag(facts.etag),
    lastModified,
    contentType,
    contentEncoding: contentEncoding || undefined,
    digests: md5?.byteLength === 16 ? { md5: Buffer.from(md5).toString("hex") } : undefined,
  });
}

/** A blob always has a size. */
export type SizedInfo = ObjectInfo & { readonly size: number };

/** Why a blob has no bytes to read, or `undefined` when it has: a folder of a hierarchical account, an archived one. */
export function unreadableReason({ metadata = {}, accessTier }: BlobFacts): string | undefined {
  if (Object.entries(metadata).some(isFolderMark)) return "it is a folder";
  return accessTier === "Archive" ? "it is in the archive tier; rehydrate it first" : undefined;
}

/** Throws `unsupported` for a blob that exists and cannot be read. */
export function ensureReadable(facts: BlobFacts, operation: string): void {
  const reason = unreadableReason(facts);
  if (reason !== undefined) throw new SluiceError("unsupported", `${operation}: ${reason}`);
}

function isFolderMark([name, value]: [string, string]): boolean {
  return name.toLowerCase() === "hdi_isfolder" && value === "true";
}
