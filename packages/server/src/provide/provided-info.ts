import { createSha256, definedMembers } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import type { ProvidedInfo, Provider } from "./provider.ts";

/** What a provider and its `describe` tell, as metadata of an object. Throws a `TypeError` for what makes no sense. */
export function toObjectInfo(
  provider: Provider,
  { key, uri }: { readonly key: string; readonly uri: string },
  info: ProvidedInfo,
): ObjectInfo {
  ensureInfo(info, uri);
  const { size, version, lastModified, sha256, mimeType } = info;
  const isRepeatable = provider.rewind !== undefined && size !== undefined && version !== undefined;
  return {
    key,
    ...definedMembers({
      size,
      etag: isRepeatable ? etagOf(uri, version) : undefined,
      lastModified,
      contentType: mimeType ?? provider.mimeType,
      digests: sha256 === undefined ? undefined : { sha256: sha256.toLowerCase() },
    }),
  };
}

function ensureInfo(info: ProvidedInfo, uri: string): void {
  const complain = (finding: string): never => {
    throw new TypeError(`provider of ${uri}: describe ${finding}`);
  };
  if (typeof info !== "object" || info === null)
    complain("gave no object; throw a SluiceError of not_found where there is no such resource");
  const { size, version, lastModified, sha256, mimeType } = info;
  if (size !== undefined && !(Number.isSafeInteger(size) && size >= 0))
    complain(`gave a size that is no number of bytes: ${String(size)}`);
  if (version !== undefined && (typeof version !== "string" || version === ""))
    complain("gave a version that is no text");
  if (mimeType !== undefined && typeof mimeType !== "string")
    complain("gave a mimeType that is no text");
  if (
    lastModified !== undefined &&
    !(lastModified instanceof Date && !Number.isNaN(lastModified.getTime()))
  )
    complain("gave a lastModified that is no Date");
  if (sha256 !== undefined && !/^[0-9a-f]{64}$/i.test(sha256))
    complain("gave a sha256 that is not 64 hex digits");
}

/** Any version becomes a legal etag, and two resources never have the same one. */
function etagOf(uri: string, version: string): string {
  const hash = createSha256();
  hash.update(new TextEncoder().encode(JSON.stringify([uri, version])));
  return hash.digest();
}
