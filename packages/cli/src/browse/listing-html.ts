import { createHash } from "node:crypto";
import type { ObjectInfo } from "@sluice/storage";
import { formatBytes } from "../terminal/quantity.ts";
import type { FolderPage } from "./folder-page.ts";

/** One folder as a page of HTML. Every name in it is escaped, and it has no script. */
export function listingHtml(folder: string, { folders, files, cursor }: FolderPage): string {
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

/** What a listing may do in a browser: show itself, and lead on by its links. */
export const listingPolicy: string = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
