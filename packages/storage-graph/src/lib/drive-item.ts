import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { toStrongEtag } from "@sluice/storage/plugin";

/** The part of a driveItem that matters here. All of it may be absent: which depends on drive and request. */
export interface DriveItem {
  readonly id?: string;
  readonly name?: string;
  readonly size?: number;
  readonly eTag?: string;
  readonly cTag?: string;
  readonly lastModifiedDateTime?: string;
  readonly file?: {
    readonly mimeType?: string;
    readonly hashes?: { readonly quickXorHash?: string };
  };
  readonly folder?: object;
  readonly root?: object;
  readonly package?: object;
  readonly remoteItem?: object;
  readonly malware?: object;
  readonly deleted?: object;
  readonly parentReference?: {
    readonly driveId?: string;
    readonly id?: string;
    readonly path?: string;
  };
}

/** Asks for these fields. With `$select` there is no download URL in the response, which is welcome. */
export const selectItem =
  "$select=id,name,size,eTag,cTag,lastModifiedDateTime,file,folder,package,remoteItem,malware,parentReference";

/** A file that was found. */
export interface DriveFile {
  readonly id: string;
  readonly info: ObjectInfo;
}

/** Why an item has no bytes to read, or `undefined` when it has. */
function checkFile(
  item: DriveItem,
): readonly ["unsupported" | "permission_denied", string] | undefined {
  if (item.remoteItem) return ["unsupported", "it is a shortcut to another drive"];
  if (item.package) return ["unsupported", "it is a package such as a notebook, not a file"];
  if (!item.file) return ["unsupported", "it is a folder"];
  if (item.malware) return ["permission_denied", "the service found malware in it"];
  return undefined;
}

/** True when the item is a file that can be read. */
export function isFile(item: DriveItem): boolean {
  return checkFile(item) === undefined;
}

/** True when the item is a folder of this drive. */
export function isFolder(item: DriveItem): boolean {
  return item.folder !== undefined && !item.package && !item.remoteItem;
}

/** The item that answered for `key` as a file; throws when it is not a file, or another object's. */
export function toFoundFile(
  item: DriveItem,
  key: string,
  driveId: string,
  operation: string,
): DriveFile {
  const finding = checkFile(item);
  if (finding) throw new SluiceError(finding[0], `${operation}: ${finding[1]}`);
  const canonical = canonicalKey(item, key, driveId);
  if (item.id === undefined || canonical === undefined)
    throw new SluiceError("not_found", `${operation}: the service answers with another object`);
  return { id: item.id, info: toObjectInfo(canonical, item) };
}

/** Metadata of a file. The size is what Graph reports; only a download tells how many bytes come. */
export function toObjectInfo(key: string, item: DriveItem): ObjectInfo {
  const lastModified = new Date(item.lastModifiedDateTime ?? Number.NaN);
  const { mimeType, hashes } = item.file ?? {};
  // not cryptographic: it tells changes, it proves nothing
  const quickXor = hashes?.quickXorHash;
  return definedMembers({
    key,
    size: typeof item.size === "number" ? item.size : undefined,
    etag: etagOf(item),
    lastModified: Number.isNaN(lastModified.getTime()) ? undefined : lastModified,
    contentType: mimeType,
    digests: quickXor === undefined ? undefined : { quickXor },
  });
}

/**
 * The stored spelling of the key that led to an item, or `undefined` when the item is not what
 * the key names: in another drive (behind a shortcut), or under a name that is more than another
 * case. Parent paths come percent-encoded from some drives and plain from others.
 */
export function canonicalKey(item: DriveItem, key: string, driveId: string): string | undefined {
  const { name, parentReference: parent } = item;
  if (name === undefined || (parent?.driveId && !isSameDrive(parent.driveId, driveId)))
    return undefined;
  const requestedSegments = key.split("/");
  const folders = requestedSegments.slice(0, -1);
  if (fold(name) !== fold(requestedSegments.at(-1) ?? "")) return undefined;
  if (folders.length === 0) return name;
  const segments = parent?.path?.split("/").slice(-folders.length);
  if (segments === undefined) return undefined;
  for (const spelling of [segments, decodeAll(segments)])
    if (spelling && fold(spelling.join("/")) === fold(folders.join("/")))
      return [...spelling, name].join("/");
  return undefined;
}

/** The content tag, which metadata does not change; otherwise the tag of the whole item. */
export function etagOf({ cTag, eTag }: DriveItem): string | undefined {
  return toStrongEtag(cTag ?? eTag);
}

/** Names that OneDrive takes for one another. */
function fold(text: string): string {
  return text.normalize("NFC").toLowerCase();
}

function decodeAll(segments: readonly string[]): string[] | undefined {
  try {
    return segments.map((segment) => decodeURIComponent(segment));
  } catch {
    return undefined;
  }
}

/** Ids of personal drives are hexadecimal; some answers drop their leading zeros or change their case. */
function isSameDrive(one: string, other: string): boolean {
  return plainId(one) === plainId(other);
}

function plainId(id: string): string {
  return /^[0-9a-f]{1,16}$/i.test(id) ? id.toLowerCase().replace(/^0+/, "") : id;
}
