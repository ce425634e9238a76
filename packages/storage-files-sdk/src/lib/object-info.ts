import { definedMembers } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import type { StoredFile } from "files-sdk";

/** What an adapter knows of an object before it is read; it always knows a size. */
export type AdapterFileInfo = ObjectInfo & { readonly size: number };

/** The metadata of `head`. A listing is told apart because adapters guess types from names there. */
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
    etag: strongEtag(etag),
    lastModified: lastModified === undefined ? undefined : new Date(lastModified),
  });
}

/** Some adapters quote their etags, some do not; a weak one promises nothing about bytes. */
export function strongEtag(etag: string | undefined): string | undefined {
  const bare = etag?.replace(/^"(.*)"$/, "$1");
  return bare !== undefined && /^(?!W\/)[\x21\x23-\x7e]+$/.test(bare) ? bare : undefined;
}

/** Where a service stores no type, adapters say that the object is bytes. */
function isKnownType(type: string): boolean {
  return type !== "" && type !== "application/octet-stream";
}
