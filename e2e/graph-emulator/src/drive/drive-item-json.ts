import type { DriveState, Item } from "./drive.ts";

/** How an item is written down. */
interface JsonOptions {
  /** Value of `$select`: only these properties, and never an annotation. */
  readonly select?: string | undefined;
  /** As delta writes it: without paths, with little about what is gone. */
  readonly isDelta?: boolean;
}

/** An item as Graph writes it; JSON leaves out members of `undefined`. `mintUrl` makes the annotation with the download URL. */
export function toJson(
  drive: DriveState,
  item: Item,
  mintUrl: (item: Item) => string,
  { select, isDelta = false }: JsonOptions = {},
): Record<string, unknown> {
  const { id, name, kind, parent, content, meta } = item;
  const isPersonal = drive.type === "personal";
  const parentReference = parent && {
    driveType: drive.type,
    driveId: parent.driveId,
    id: parent.id,
    path: isDelta ? undefined : pathOf(drive, parent),
  };
  if (isDelta && item.deleted)
    return {
      id,
      deleted: { state: "deleted" },
      parentReference,
      name: isPersonal ? name : undefined,
    };
  const all: Record<string, unknown> = {
    id,
    name,
    eTag: eTagOf(drive, item),
    // business drives leave it out of changes, and folders have none there
    cTag: isPersonal || (kind === "file" && !isDelta) ? cTagOf(drive, item) : undefined,
    size: meta.reportedSize ?? content.size,
    lastModifiedDateTime: new Date(item.modifiedAt).toISOString(),
    parentReference,
    root: parent === undefined ? {} : undefined,
    ...facetsOf(item),
    malware: meta.malware ? { description: "Emulated.A" } : undefined,
  };
  if (select === undefined)
    return kind === "file" ? { "@microsoft.graph.downloadUrl": mintUrl(item), ...all } : all;
  const wanted = new Set(select.split(","));
  return Object.fromEntries(Object.entries(all).filter(([field]) => wanted.has(field)));
}

/** What kind of item it is. */
function facetsOf({ kind, children, target, meta, hash }: Item): Record<string, unknown> {
  if (kind === "folder") return { folder: { childCount: children.size } };
  if (kind === "package") return { package: { type: "oneNote" }, folder: { childCount: 0 } };
  if (kind === "shortcut") return { remoteItem: { id: target?.id, folder: {} } };
  const hashes = hash === undefined ? undefined : { quickXorHash: hash };
  return { file: { mimeType: meta.mimeType, hashes } };
}

/** Personal drives write their tags without quotes. */
function eTagOf(drive: DriveState, { id, eVersion }: Item): string {
  return drive.type === "personal" ? `a${id}.${eVersion}` : `"{${id}},${eVersion}"`;
}

/** The tag of the content. */
function cTagOf(drive: DriveState, { id, cVersion }: Item): string {
  return drive.type === "personal" ? `c${id}.${cVersion}` : `"c:{${id}},${cVersion}"`;
}

/** Percent-encoded on personal drives, plain elsewhere: both have been seen. */
function pathOf(drive: DriveState, item: Item): string {
  const names: string[] = [];
  for (let at: Item = item; at.parent !== undefined; at = at.parent) names.unshift(at.name);
  const written = drive.type === "personal" ? names.map((name) => encodeURIComponent(name)) : names;
  return [`/drives/${item.driveId}/root:`, ...written].join("/");
}

/** True when a condition names the eTag or the cTag of the item. */
export function namesTag(
  header: string | string[] | undefined,
  drive: DriveState,
  item: Item,
): boolean {
  const tags = [eTagOf(drive, item), cTagOf(drive, item)].map(withoutQuotes);
  return (
    typeof header === "string" &&
    header.split(/,\s(?=")/).some((tag) => tags.includes(withoutQuotes(tag)))
  );
}

function withoutQuotes(tag: string): string {
  return tag.replace(/^"|"$/g, "");
}
