import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import type { Mount } from "../storage/mount.ts";
import type { Mounts } from "../storage/mounts.ts";
import {
  decodedPath,
  type GivenPath,
  type KnownName,
  matchName,
  type NameMatch,
  pathIn,
  withoutEndSlash,
} from "./near-names.ts";
import { type FilePlace, placesOf, visibleFiles } from "./visible-files.ts";

/** The caller that looks for a name. */
interface NameSearch {
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

/** Finds the file that a model means by a name that is not a URI of one, among those that its caller may list. */
export function findResource(
  { calls, mounts }: { readonly calls: ResourceCalls; readonly mounts: Mounts },
  { mcp, ctx }: { readonly mcp: McpServer; readonly ctx: ServerContext },
  given: string,
): Promise<NameMatch> {
  return calls.answer({ mcp, ctx, action: "list", kind: "request" }, async ({ principal }) => {
    const search = { principal, signal: ctx.mcpReq.signal };
    return { answer: await findFile(mounts, search, given) };
  });
}

async function findFile(mounts: Mounts, search: NameSearch, given: string): Promise<NameMatch> {
  const path = pathBelow(mounts, search.principal, given);
  if (!path) return { nearest: [] };
  const exact = await exactly(path, search);
  if (exact.length === 1) return { found: exact[0]!, nearest: [] };
  const files = await firstFiles(mounts, path.places, search);
  return matchName(
    path,
    files.map(({ info, uri }) => ({ path: info.key, uri })),
  );
}

/** Finds the folder that a model means by a name, in the same way; URIs of folders end in a slash. */
export async function findFolder(
  mounts: Mounts,
  search: NameSearch,
  given: string,
): Promise<NameMatch> {
  const folder = pathBelow(mounts, search.principal, given);
  if (!folder) return { nearest: [] };
  const files = await firstFiles(mounts, folder.places, search);
  const folders = new Map<string, KnownName>();
  for (const { mount, info } of files)
    for (const path of foldersOf(info.key)) {
      const uri = `${mount.mapper.toUri(path)}/`;
      folders.set(uri, { path, uri });
    }
  return matchName({ ...folder, path: withoutEndSlash(folder.path) }, [...folders.values()]);
}

/** `a` and `a/b` of `a/b/c.txt`. */
function foldersOf(key: string): string[] {
  const names = key.split("/");
  return names.slice(1).map((_, at) => names.slice(0, at + 1).join("/"));
}

interface WantedPath extends GivenPath {
  readonly places: readonly FilePlace[];
}

/** The path of a name, and where to look for it; `undefined` for a URI that names nothing here. */
function pathBelow(
  mounts: Mounts,
  principal: Principal | undefined,
  given: string,
): WantedPath | undefined {
  const places = placesOf(mounts, principal);
  const below = places.filter(({ mount }) => given.startsWith(mount.mapper.baseUri));
  const [base] = below;
  if (base) {
    const path = decodedPath(given.slice(base.mount.mapper.baseUri.length));
    return { path, isAbsolute: false, places: below };
  }
  const path = pathIn(given);
  return path && { ...path, places };
}

/** URIs of the storages that have the path itself, which may lie beyond the files that are looked through. */
async function exactly({ path, places }: WantedPath, search: NameSearch): Promise<string[]> {
  const uris: string[] = [];
  for (const { mount } of places.slice(0, maxAsked))
    if (mount.kind === "storage" && (await isThere(mount, path, search)))
      uris.push(mount.mapper.toUri(path));
  return uris;
}

const maxAsked = 20;

async function isThere(
  mount: Mount,
  key: string,
  { principal, signal }: NameSearch,
): Promise<boolean> {
  try {
    mount.mapper.toUri(key);
    const storage = await mount.storageAccess.authorize({ principal, key, action: "read" });
    await storage.describe(key, definedMembers({ signal }));
    return true;
  } catch (error) {
    if (SluiceError.is(error) && absences.has(error.code)) return false;
    throw error;
  }
}

const absences: ReadonlySet<string> = new Set([
  "not_found",
  "permission_denied",
  "unsupported",
  "invalid_argument",
]);

/** What is compared with a name: the first 10,000 files. */
async function firstFiles(mounts: Mounts, places: readonly FilePlace[], search: NameSearch) {
  for await (const { files } of visibleFiles(mounts, { ...search, places })) return files;
  return [];
}
