import type {
  McpServer,
  Resource,
  ResourceTemplateType,
  ServerContext,
} from "@modelcontextprotocol/server";
import { resourceTag, type Principal } from "@sluice/core";
import { definedMembers, foldName } from "@sluice/core/internal";
import type { UnlistedCounts } from "@sluice/storage";
import { UnlistedTally } from "@sluice/storage/internal";
import { tagOf } from "../access/principal.ts";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import { knownType } from "../content/resource-type.ts";
import { advised } from "../faults/advice.ts";
import type { Mounts } from "../storage/mounts.ts";
import { findFolder } from "./find-resource.ts";
import { templatesOf } from "./list-resources.ts";
import { decodedPath, pathIn, withNearest, withoutEndSlash } from "./near-names.ts";
import { type FilePlace, placesOf, type VisibleFile, visibleFiles } from "./visible-files.ts";
import { visiblePage } from "./visible-page.ts";

/** What a model wants to see. */
export interface FolderRequest {
  /** URI or path of a folder. Default: everything. */
  readonly folder?: string | undefined;
  /** Part of a name, in any case, or a pattern with `*`. Default: every name. */
  readonly filter?: string | undefined;
  /** Of the page before. */
  readonly cursor?: string | undefined;
}

/** A page of files for a model. */
export interface FolderPage {
  /** At most 200, sorted by storage and name. */
  readonly resources: readonly Resource[];
  /** Of the first page: folders directly below, at most 100, and how many of the files each has. */
  readonly folders: readonly { readonly uri: string; readonly files: number }[];
  /** Of the first page of everything: resources that providers make. */
  readonly templates: readonly ResourceTemplateType[];
  readonly nextCursor?: string;
  /** Of the first page: entries that are in no list, as far as was looked. */
  readonly unlisted?: UnlistedCounts;
  /** There are more files than are looked through. */
  readonly isCut: boolean;
}

interface FolderParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
}

const pageSize = 200;
const maxFolders = 100;
/** Each later page looks through all chunks before its own again: a cursor has no room for the place in a storage. */
const maxChunks = 10;

/**
 * Lists what the storages have, without what the author of a server registered: the other tools do not know that. Throws
 * `not_found` for a folder without files, and `invalid_argument` for a cursor of another folder, filter or caller.
 */
export function listFolder(
  { calls, mounts }: FolderParts,
  { mcp, ctx }: { readonly mcp: McpServer; readonly ctx: ServerContext },
  request: FolderRequest,
): Promise<FolderPage> {
  return calls.answer({ mcp, ctx, action: "list", kind: "request" }, async (work) => {
    const { principal, entry } = work;
    const { signal } = ctx.mcpReq;
    const { folder = "", filter = "", cursor } = request;
    const scope = tagged(JSON.stringify([folder, filter, tagOf(principal) ?? ""]), 16);
    const from = cursor === undefined ? firstPosition : readCursor(cursor, scope);
    const search = { principal, signal };
    const places = await placesFor(mounts, search, folder);
    const page = await pageFrom(mounts, { ...search, places }, from, matcherOf(filter));
    const { next, isCut, withheld, unlisted } = page;
    const isFirst = cursor === undefined;
    entry.facts.shown = page.files.length;
    entry.facts.withheld = withheld;
    const answer = {
      resources: await Promise.all(page.files.map((file) => resourceOf(file, search))),
      folders: isFirst ? foldersIn(page.all, places) : [],
      templates: isFirst && folder === "" ? providedTemplates(mounts, principal) : [],
      isCut,
      ...definedMembers({
        nextCursor: next && formatCursor(next, scope),
        unlisted: isFirst ? unlisted : undefined,
      }),
    };
    return { answer };
  });
}

interface Search {
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

/** Where a folder lies; of a name that is not a URI, in every storage that has it. */
async function placesFor(mounts: Mounts, search: Search, folder: string): Promise<FilePlace[]> {
  if (folder === "") return placesOf(mounts, search.principal);
  const candidates = placesNamed(mounts, search, folder);
  const isFull = await Promise.all(candidates.map((place) => hasFiles(place, search)));
  const full = candidates.filter((_, at) => isFull[at]);
  if (full.length > 0) return full;
  const { found, nearest } = await findFolder(mounts, search, folder);
  if (found !== undefined) return placesNamed(mounts, search, found);
  throw advised("not_found", withNearest("No such folder, or nothing in it", nearest));
}

function placesNamed(mounts: Mounts, { principal }: Search, folder: string): FilePlace[] {
  const places = placesOf(mounts, principal);
  const base = places.find(({ mount }) => `${folder}/`.startsWith(mount.mapper.baseUri));
  const rest = base ? folder.slice(base.mount.mapper.baseUri.length) : pathIn(folder)?.path;
  if (rest === undefined) return [];
  const path = base ? decodedPath(rest) : rest;
  const prefix = `${withoutEndSlash(path)}/`;
  return (base ? [base] : places).map(({ mount }) => (path === "" ? { mount } : { mount, prefix }));
}

/** A storage as a whole is there even if it is empty. */
async function hasFiles({ mount, prefix }: FilePlace, search: Search): Promise<boolean> {
  if (prefix === undefined) return true;
  const page = await visiblePage(mount, { ...search, prefix, cursor: undefined, limit: 1 });
  return page.objects.length > 0 || page.unlisted !== undefined;
}

/** Where a page begins: after the first `offset` files of a chunk, the last of which has the tag `after`. */
interface ListPosition {
  readonly chunk: number;
  readonly offset: number;
  readonly after: string;
}

const firstPosition: ListPosition = { chunk: 0, offset: 0, after: "" };

function formatCursor({ chunk, offset, after }: ListPosition, scope: string): string {
  return [chunk, offset, scope, after].join(".");
}

const cursorGrammar = /^(\d)\.(\d{1,5})\.([0-9a-f]{16})\.([0-9a-f]{8}|)$/;

/** Holds no secret and names nothing: what a page has is decided anew, so that it need not be sealed. */
function readCursor(text: string, scope: string): ListPosition {
  const [, chunk, offset, cursorScope, after = ""] = cursorGrammar.exec(text) ?? [];
  if (cursorScope === scope) return { chunk: Number(chunk), offset: Number(offset), after };
  throw advised(
    "invalid_argument",
    "The cursor is of another list: begin without one, or pass folder and filter as before",
  );
}

function tagged(text: string, length: number): string {
  return resourceTag(text).slice(0, length);
}

interface FilesAt {
  readonly files: readonly VisibleFile[];
  /** Those of the whole chunk. */
  readonly all: readonly VisibleFile[];
  readonly next: ListPosition | undefined;
  readonly isCut: boolean;
  readonly withheld: number;
  readonly unlisted: UnlistedCounts | undefined;
}

/** The first page from a position on that has files, or the last one. */
async function pageFrom(
  mounts: Mounts,
  search: Search & { readonly places: readonly FilePlace[] },
  from: ListPosition,
  matches: (key: string) => boolean,
): Promise<FilesAt> {
  let chunk = 0;
  let withheld = 0;
  const tally = new UnlistedTally();
  for await (const found of visibleFiles(mounts, search)) {
    const position = chunk === from.chunk ? from : { ...firstPosition, chunk };
    chunk += 1;
    if (position.chunk < from.chunk) continue;
    withheld += found.withheld;
    tally.addAll(found.unlisted);
    const all = sorted(
      found.files.filter(({ info }) => matches(info.key)),
      search.places,
    );
    const start = startIn(all, position);
    const end = start + pageSize;
    const files = all.slice(start, end);
    const isLast = found.isLast || chunk === maxChunks;
    if (end < all.length) {
      const after = tagged(files.at(-1)!.uri, 8);
      const next = { chunk: position.chunk, offset: end, after };
      return { files, all, next, isCut: false, withheld, unlisted: tally.take() };
    }
    if (files.length === 0 && !isLast) continue;
    const next = isLast ? undefined : { ...firstPosition, chunk };
    const isCut = isLast && !found.isLast;
    return { files, all, next, isCut, withheld, unlisted: tally.take() };
  }
  return { files: [], all: [], next: undefined, isCut: false, withheld, unlisted: undefined };
}

/** Files come and go between two pages: what the page before ended with counts more than its place. */
function startIn(files: readonly VisibleFile[], { offset, after }: ListPosition): number {
  if (after === "") return offset;
  const isLast = (file: VisibleFile | undefined): boolean =>
    file !== undefined && tagged(file.uri, 8) === after;
  if (isLast(files[offset - 1])) return offset;
  const at = files.findIndex(isLast);
  return at < 0 ? offset : at + 1;
}

function sorted(files: readonly VisibleFile[], places: readonly FilePlace[]): VisibleFile[] {
  const orders = new Map(places.map(({ mount }, at) => [mount, at]));
  return files.toSorted((a, b) => {
    if (a.mount !== b.mount) return orders.get(a.mount)! - orders.get(b.mount)!;
    return a.info.key < b.info.key ? -1 : 1;
  });
}

/** Whether a name is meant, in time that grows with its length alone: without regular expressions of a model's making. */
function matcherOf(filter: string): (key: string) => boolean {
  const pieces = foldName(filter).split("*");
  const [first = "", ...others] = pieces;
  const last = others.pop();
  if (last === undefined) return (key) => foldName(key).includes(first);
  return (key) => {
    const name = foldName(filter.includes("/") ? key : key.slice(key.lastIndexOf("/") + 1));
    const end = name.length - last.length;
    if (!name.startsWith(first) || !name.endsWith(last)) return false;
    let at = first.length;
    for (const piece of others) {
      const found = name.indexOf(piece, at);
      if (found < 0) return false;
      at = found + piece.length;
    }
    return at <= end;
  };
}

function foldersIn(
  files: readonly VisibleFile[],
  places: readonly FilePlace[],
): FolderPage["folders"] {
  const prefixes = new Map(places.map(({ mount, prefix = "" }) => [mount, prefix.length]));
  const counts = new Map<string, number>();
  for (const { mount, info } of files) {
    const end = info.key.indexOf("/", prefixes.get(mount));
    if (end < 0) continue;
    const uri = `${mount.mapper.toUri(info.key.slice(0, end))}/`;
    counts.set(uri, (counts.get(uri) ?? 0) + 1);
  }
  return [...counts].slice(0, maxFolders).map(([uri, count]) => ({ uri, files: count }));
}

function providedTemplates(
  mounts: Mounts,
  principal: Principal | undefined,
): ResourceTemplateType[] {
  const providers = mounts.all.filter(({ kind }) => kind === "provider");
  return templatesOf(providers, principal, false);
}

async function resourceOf(file: VisibleFile, search: Search): Promise<Resource> {
  const info = file.info.size === undefined ? await described(file, search) : file.info;
  const mimeType = file.isUntyped && info === file.info ? undefined : knownType(info);
  return file.mount.entries.of(info, { mimeType, isMarked: false, signal: search.signal });
}

/** A file whose size its list does not tell, as of a provider; one that cannot be described stays as it is. */
async function described({ mount, info }: VisibleFile, { principal, signal }: Search) {
  const { key } = info;
  try {
    const storage = await mount.storageAccess.authorize({ principal, key, action: "read" });
    return await storage.describe(key, { signal });
  } catch {
    signal.throwIfAborted();
    return info;
  }
}
