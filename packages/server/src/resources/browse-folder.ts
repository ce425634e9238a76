import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers, type TextSealer } from "@sluice/core/internal";
import { formatUnlisted, UnlistedTally } from "@sluice/storage/internal";
import { tagOf, type Caller } from "../access/principal.ts";
import type { ResourceCalls } from "../calls/resource-calls.ts";
import { knownType } from "../content/resource-type.ts";
import type { Mount } from "../storage/mount.ts";
import { isThereFor, type Mounts } from "../storage/mounts.ts";
import { visiblePage } from "./visible-page.ts";
import { prefixOf } from "./walk-folder.ts";

/** Asks for a page of a folder, as a caller may see it. */
export interface BrowseRequest {
  readonly caller: Caller;
  /** A base URI, or a folder below one: it ends in `/`. Default: the only storage of the caller, else a list of its storages. */
  readonly uri?: string | undefined;
  /** Of the page before. */
  readonly cursor?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A folder by its name and URI. */
export interface FolderLink {
  readonly name: string;
  readonly uri: string;
}

/** A file directly in a folder. */
export interface BrowsedFile extends FolderLink {
  /** Bytes. Absent if storage does not know it. */
  readonly size?: number;
  readonly modified?: Date;
  /** As the list and the name tell it; absent if only the content does. */
  readonly mimeType?: string;
}

/** What is directly in a folder, as far as one page goes. */
export interface FolderView {
  /** Of this folder; absent for the list of storages. */
  readonly uri?: string;
  /**
   * From below the top down to this folder. The top is the only storage of the caller, or the list of its storages, which are named
   * by their base URIs.
   */
  readonly trail: readonly FolderLink[];
  /** In the order of names. A folder may come again on a later page. */
  readonly folders: readonly FolderLink[];
  /** In the order of names. */
  readonly files: readonly BrowsedFile[];
  /** Of the next page; absent at the end. */
  readonly cursor?: string;
  /** Entries of this part of the storage that are in no list, in words, such as `2 not listed: 2 symbolic links`. */
  readonly unlisted?: string;
}

interface BrowseParts {
  readonly calls: ResourceCalls;
  readonly mounts: Mounts;
  /** Seals cursors: one of storage can name objects that the caller may not know. */
  readonly cursors: TextSealer;
  /** URL of the endpoint, for which alone cursors are good. */
  readonly audience: string;
}

/** Entries of the first page, for which a person waits, and of later ones, but for those of the last look. */
const pageSizes = { first: 100, later: 1_000 };
/** Maximum objects to look at for a page, including those of folders below. */
const maxObjects = 20_000;

/**
 * One page of a folder for people, without what the caller may not list. It ends early where folders below have many objects: the
 * next page continues from there. Counts as a request and is recorded as a list. Rejects with `not_found` for a folder
 * of no storage, `invalid_argument` for a malformed URI or a cursor of another folder or caller, and with errors of the storage.
 */
export function browseFolder(
  { calls, mounts, cursors, audience }: BrowseParts,
  { caller, uri: asked, cursor: sent, signal = new AbortController().signal }: BrowseRequest,
): Promise<FolderView> {
  const facts = { action: "list", kind: "request", caller, signal } as const;
  return calls.answerCaller<FolderView>(facts, async ({ principal, entry }) => {
    const there = mounts.storages.filter((mount) => isThereFor(mount, principal));
    const [only, ...others] = there;
    const uri = asked ?? (others.length === 0 ? only?.mapper.baseUri : undefined);
    if (uri === undefined) {
      const folders = there.map(({ mapper: { baseUri } }) => ({ name: baseUri, uri: baseUri }));
      return { answer: { trail: [], folders, files: [] } };
    }
    const mount = there.find(({ mapper }) => uri.startsWith(mapper.baseUri));
    if (!mount) throw new SluiceError("not_found", "sluice: the folder is not below a base URI");
    const prefix = prefixOf(mount, uri);
    const context = [audience, "browse", mount.namePrefix + prefix, tagOf(principal) ?? ""];
    const from = sent === undefined ? undefined : cursors.unseal(sent, context);
    const page = await readFolder(mounts, mount, { prefix, from, principal, signal });
    const { folders, files, next, unlisted, withheld } = page;
    entry.facts.shown = files.length;
    entry.facts.withheld = withheld;
    const cursor = next === undefined ? undefined : cursors.seal(next, context);
    const storage = { name: mount.mapper.baseUri, uri: mount.mapper.baseUri };
    const trail = [...(others.length === 0 ? [] : [storage]), ...trailOf(mount, prefix)];
    return { answer: { uri, trail, folders, files, ...definedMembers({ cursor, unlisted }) } };
  });
}

interface FolderRead {
  readonly prefix: string;
  /** Where to begin; the start of the folder when absent. */
  readonly from: string | undefined;
  readonly principal: Principal | undefined;
  readonly signal: AbortSignal;
}

interface BrowsedPage extends Pick<FolderView, "folders" | "files"> {
  readonly next: string | undefined;
  readonly unlisted: string | undefined;
  readonly withheld: number;
}

/** Reads one page of a folder out of the flat list of its storage. */
async function readFolder(
  mounts: Mounts,
  mount: Mount,
  { prefix, from, principal, signal }: FolderRead,
): Promise<BrowsedPage> {
  const folders = new Set<string>();
  const files: BrowsedFile[] = [];
  const tally = new UnlistedTally();
  let [cursor, looked, withheld] = [from, 0, 0];
  const maxEntries = from === undefined ? pageSizes.first : pageSizes.later;
  let limit = maxEntries;
  do {
    const page = await visiblePage(mount, { prefix, principal, cursor, limit, signal });
    limit = pageSizes.later;
    for (const info of page.objects) {
      const name = info.key.slice(prefix.length);
      const slash = name.indexOf("/");
      const uri = mount.mapper.toUri(info.key);
      if (slash >= 0) folders.add(name.slice(0, slash));
      // an object whose URI a provider has cannot be read by it
      else if (mounts.mountOf(uri) === mount) {
        const { size, lastModified: modified } = info;
        const mimeType = page.untyped && !info.contentType ? undefined : knownType(info);
        files.push({ name, uri, ...definedMembers({ size, modified, mimeType }) });
      }
    }
    tally.addAll(page.unlisted);
    withheld += page.withheld;
    looked += Math.max(page.objects.length + page.withheld, 1);
    ({ cursor } = page);
  } while (cursor !== undefined && looked < maxObjects && folders.size + files.length < maxEntries);
  const counts = tally.take();
  return {
    folders: [...folders].toSorted(byName).map((name) => linkTo(mount, prefix, name)),
    files: files.toSorted((one, other) => byName(one.name, other.name)),
    next: cursor,
    unlisted: counts && formatUnlisted(counts),
    withheld,
  };
}

const byName = new Intl.Collator("en", { numeric: true }).compare;

function linkTo({ mapper }: Mount, prefix: string, name: string): FolderLink {
  return { name, uri: `${mapper.toUri(prefix + name)}/` };
}

/** The folders on the way to a prefix. */
function trailOf(mount: Mount, prefix: string): FolderLink[] {
  const names = prefix.split("/").slice(0, -1);
  return names.map((name, at) => {
    const above = names.slice(0, at).map((part) => `${part}/`);
    return linkTo(mount, above.join(""), name);
  });
}
