import type { GetObjectCommandOutput, HeadObjectCommandOutput } from "@aws-sdk/client-s3";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { Digests, ObjectInfo } from "@sluice/storage";
import { toStrongEtag } from "@sluice/storage/plugin";

type ObjectHead = HeadObjectCommandOutput | GetObjectCommandOutput;

/** Metadata of an object of `size` bytes. Digests are taken only from answers about the whole object. */
export function toObjectInfo(
  key: string,
  head: ObjectHead,
  size: number,
  { whole }: { readonly whole: boolean },
): ObjectInfo {
  return definedMembers({
    key,
    size,
    etag: toStrongEtag(head.ETag),
    lastModified: head.LastModified,
    contentType: head.ContentType,
    contentEncoding: toStoredCoding(head.ContentEncoding),
    digests: whole ? toDigests(head) : undefined,
  });
}

/** Throws `unsupported` for an object whose bytes lie in an archive and have not been restored. */
export function ensureReadable(head: HeadObjectCommandOutput, operation: string): void {
  const archived =
    head.StorageClass === "GLACIER" ||
    head.StorageClass === "DEEP_ARCHIVE" ||
    head.ArchiveStatus !== undefined;
  if (archived && !head.Restore?.includes('ongoing-request="false"'))
    throw new SluiceError(
      "unsupported",
      `${operation}: it is in an archive and has to be restored first`,
    );
}

/** Some servers keep the framing of an upload, which they have taken off, as a coding of the object. */
function toStoredCoding(header: string | undefined): string | undefined {
  const codings = (header ?? "").split(",").map((coding) => coding.trim());
  return (
    codings.filter((coding) => coding !== "" && coding !== "aws-chunked").join(", ") || undefined
  );
}

/**
 * The ETag does not count: it is an MD5 only sometimes. Of several parts, most checksums are not
 * digests of the whole.
 */
function toDigests(head: ObjectHead): Digests | undefined {
  if (head.ChecksumType !== "FULL_OBJECT") return undefined;
  const digests: Digests = definedMembers({
    sha256: toHex(head.ChecksumSHA256),
    sha1: toHex(head.ChecksumSHA1),
    crc32: head.ChecksumCRC32,
    crc32c: head.ChecksumCRC32C,
    crc64nvme: head.ChecksumCRC64NVME,
  });
  return Object.keys(digests).length === 0 ? undefined : digests;
}

function toHex(base64: string | undefined): string | undefined {
  return base64 === undefined ? undefined : Buffer.from(base64, "base64").toString("hex");
}
