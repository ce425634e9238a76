import { definedMembers } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { toStrongEtag } from "@sluice/storage/plugin";
import type { StoredFile } from "files-sdk";

/** The metadata that an adapter has before a read; it always has a size. */
export type AdapterFileInfo = ObjectInfo & { readonly size: number };

/** The metadata of `head`. Listings differ, because adapters guess types from names there. */
export function toObjectInfo(key: string, file: StoredFile): AdapterFileInfo {
  const info = toListedInfo(key, file);
  return isKnownType(file.type) ? { ...info, contentType: file.type } : info;
}

/** The metadata of one item of `list`. */
export function toListedInfo(
  key: string,
  { size, etag, lastModified }: StoredFile,
): AdapterFileInfo {
  return definedMembers({
    key,
    size,
    etag: toStrongEtag(etag),
    lastModified: lastModified === undefined ? undefined : new Date(lastModified),
  });
}

/** Where a service stores no type, adapters say that the object is bytes. */
function isKnownType(type: string): boolean {
  return type !== "" && type !== "application/octet-stream";
}
