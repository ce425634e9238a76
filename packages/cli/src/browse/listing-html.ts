import { createHash } from "node:crypto";
import type { ObjectInfo, StorageBackend } from "@sluice/storage";
import { definedMembers } from "@sluice/core/internal";
import { formatBytes } from "../terminal/quantity.ts";

/** One folder as a page of HTML. Every name in it is escaped, and it has no script. */
export function listingHtml(folder: string, { folders, files, cursor }: BrowsedPage): string {
  const title = `/${folder}`;
  const above = folder === "" ? "" : row("../", folderLink(parentOf(folder)));
  const rows = [
    above,
    ...folders.map((name) => row(`${name}/`, folderLink(`${folder}${name}/`))),
    ...files.map((info) => row(info.key.slice(folder.length), fileLink(info.key), info)),
  ].join("");
  const isEmpty = folders.length + files.length === 0;
  const more =
    cursor === undefined ? "" : `<p><a href="${escape(folderLink(folder, cursor))}">More</a></p>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escape(title)}</title>
<style>${style}</style>
</head>
<body>
<h1><bdi>${escape(title)}</bdi></h1>
<table>
${rows}</table>
${isEmpty && cursor === undefined ? "<p>Nothing here.</p>" : more}
</body>
</html>
`;
}

/** Path of the page of a folder. */
function folderLink(folder: string, cursor?: string): string {
  const query = new URLSearchParams();
  if (folder !== "") query.set("folder", folder);
  if (cursor !== undefined) query.set("after", cursor);
  return query.size === 0 ? "/" : `/?${query.toString()}`;
}

/** Path that leads to a new link of a file. */
function fileLink(key: string): string {
  return `/open?${new URLSearchParams({ file: key }).toString()}`;
}

function row(name: string, link: string, { size, lastModified }: Partial<ObjectInfo> = {}): string {
  const bytes = size === undefined ? "" : formatBytes(size);
  const time = lastModified?.toISOString().slice(0, 16).replace("T", " ") ?? "";
  return `<tr><td><a href="${escape(link)}"><bdi>${escape(name)}</bdi></a></td><td>${bytes}</td><td>${time}</td></tr>\n`;
}

function parentOf(folder: string): string {
  return folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1);
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

const style =
  "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color-scheme:light dark}" +
  "h1{font-size:1.25rem;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}" +
  "td{padding:.15rem .5rem;overflow-wrap:anywhere}td+td{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}";

/** What a listing may do in a browser: show itself, and follow its links. */
export const listingPolicy: string = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** The direct entries of a folder, as far as one page goes. */
interface BrowsedPage {
  /** Names of folders, in the order of names. */
  readonly folders: readonly string[];
  /** Files, in the order of names. */
  readonly files: readonly ObjectInfo[];
  /** Where the next page begins; absent at the end. */
  readonly cursor?: string;
}

/** Which page of which folder. */
interface BrowsedFolder {
  /** "" for the top, else it ends with a slash. */
  readonly folder: string;
  readonly cursor?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Maximum entries of a page. */
const maxEntries = 500;
/** Maximum objects to look at for a page, including those of folders below. */
const maxObjects = 20_000;
const listLimit = 1_000;

/**
 * Reads one page of a folder out of the flat list of its storage. It ends early where folders below have many objects:
 * the next page continues from there.
 */
export async function readFolder(
  storage: Pick<StorageBackend, "list">,
  { folder, cursor: from, signal }: BrowsedFolder,
): Promise<BrowsedPage> {
  const folders = new Set<string>();
  const files: ObjectInfo[] = [];
  let cursor = from;
  let looked = 0;
  do {
    const page = await storage.list(
      definedMembers({ prefix: folder, limit: listLimit, cursor, signal }),
    );
    for (const info of page.objects) {
      const rest = info.key.slice(folder.length);
      const slash = rest.indexOf("/");
      if (slash < 0) files.push(info);
      else folders.add(rest.slice(0, slash));
    }
    looked += Math.max(page.objects.length, 1);
    ({ cursor } = page);
  } while (cursor !== undefined && looked < maxObjects && folders.size + files.length < maxEntries);
  return {
    folders: [...folders].toSorted(byName),
    files: files.toSorted((one, other) => byName(one.key, other.key)),
    ...definedMembers({ cursor }),
  };
}

const byName = new Intl.Collator("en", { numeric: true }).compare;
