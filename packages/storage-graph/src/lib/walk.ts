import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage, ObjectInfo } from "@sluice/storage";
import { definedMembers } from "@sluice/core/internal";
import {
  checkKey,
  type FoundPage,
  listPage,
  type ListRequest,
  unlistedReason,
  type UnlistedReason,
  UnlistedTally,
} from "@sluice/storage/plugin";
import { type Address, checkGraphKey } from "./address.ts";
import {
  canonicalKey,
  type DriveItem,
  isFile,
  isFolder,
  selectItem,
  toObjectInfo,
} from "./drive-item.ts";
import type { GraphRoute } from "./graph-client.ts";

const pageItems = 200;

/** One folder on the way, with its known entries. */
interface Frame {
  /** Key of the folder with a slash behind it; "" for the root. */
  readonly folder: string;
  /** Where its entries begin. */
  readonly first: string;
  readonly entries: readonly DriveItem[];
  /** How many of the entries were visited. */
  readonly done: number;
  /** Where more entries are; absent after the last page. */
  readonly next: string | undefined;
}

/** The folders from the root down to where a walk stands; it has ended when there are none. Never changed. */
type DriveWalk = readonly Frame[];

interface Step {
  readonly walk: DriveWalk;
  /** The visited entry; absent when the step only made way. */
  readonly entry?: { readonly key: string; readonly item: DriveItem };
  /** Why the entry that the step passed is not listed. */
  readonly unlisted?: UnlistedReason;
  /** A request was sent. */
  readonly asked: boolean;
}

/** A walk through everything below a folder (its key with a slash, or ""). */
async function startWalk(
  { client, address }: GraphRoute,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<DriveWalk> {
  const key = folder.slice(0, -1);
  const answer = await client.ask({
    target: `${address.toKey(key)}?${selectItem}`,
    expect: key === "" ? [200] : [200, 404],
    operation: "graph: list",
    signal,
  });
  const item = answer.body as DriveItem;
  const isThere =
    answer.status === 200 &&
    isFolder(item) &&
    (key === "" || canonicalKey(item, key, address.driveId) === key);
  return isThere && item.id !== undefined ? [frameOf(address, folder, item.id)] : [];
}

/** Visits the next entry, goes a page on, or leaves a folder. */
async function step(
  route: GraphRoute,
  walk: DriveWalk,
  { prefix, signal }: { readonly prefix: string; readonly signal: AbortSignal | undefined },
): Promise<Step> {
  const outer = walk.slice(0, -1);
  const frame = walk.at(-1);
  if (frame === undefined) return { walk, asked: false };
  const item = frame.entries[frame.done];
  if (item === undefined) {
    // an empty page is not the end; only a missing link is
    if (frame.next === undefined) return { walk: outer, asked: false };
    return { walk: [...outer, await nextPage(route, frame, signal)], asked: true };
  }
  const passed = [...outer, { ...frame, done: frame.done + 1 }];
  const key = frame.folder + (item.name ?? "");
  // an item without a legal key cannot be requested
  if (item.name === undefined) return { walk: passed, asked: false };
  if (checkGraphKey(key)) {
    const unlisted = key.startsWith(prefix) ? (unlistedReason(key) ?? "reserved") : undefined;
    return { walk: passed, asked: false, ...definedMembers({ unlisted }) };
  }
  const below = `${key}/`;
  const descends =
    isFolder(item) && item.id !== undefined && below.startsWith(prefix.slice(0, below.length));
  return {
    walk: descends ? [...passed, frameOf(route.address, below, item.id)] : passed,
    entry: { key, item },
    asked: false,
  };
}

/**
 * The walk as it was after it had visited the entry with this key. A folder in which the next
 * name on the way is gone is walked through from its beginning: twice is better than never.
 */
async function resumeWalk(
  route: GraphRoute,
  folder: string,
  position: string,
  signal: AbortSignal | undefined,
): Promise<DriveWalk> {
  let walk = await startWalk(route, folder, signal);
  for (const name of position.slice(folder.length).split("/")) {
    const outer = walk.slice(0, -1);
    let frame = walk.at(-1);
    let at = -1;
    while (frame !== undefined && at < 0) {
      at = frame.entries.findIndex((item) => item.name === name);
      if (at < 0 && frame.next === undefined) return walk;
      if (at < 0) frame = await nextPage(route, frame, signal);
    }
    const item = frame?.entries[at];
    if (frame === undefined || item === undefined) return walk;
    walk = [...outer, { ...frame, done: at + 1 }];
    if (!isFolder(item) || item.id === undefined) return walk;
    walk = [...walk, frameOf(route.address, `${frame.folder}${name}/`, item.id)];
  }
  return walk;
}

function frameOf(address: Address, folder: string, id: string): Frame {
  const first = address.toItem(id, `/children?$top=${pageItems}&${selectItem}`);
  return { folder, first, entries: [], done: 0, next: first };
}

async function nextPage(
  { client }: GraphRoute,
  { next = "", ...frame }: Frame,
  signal: AbortSignal | undefined,
): Promise<Frame> {
  const { status, body } = await client.ask({
    target: next,
    // a folder that was removed by now has nothing more to list
    expect: [200, 404],
    operation: "graph: list",
    signal,
  });
  if (status === 404) return { ...frame, next: undefined, entries: [], done: 0 };
  const { value, "@odata.nextLink": link } = (body ?? {}) as {
    value?: unknown;
    "@odata.nextLink"?: unknown;
  };
  if (!Array.isArray(value) || link === next)
    throw new SluiceError(
      "protocol",
      "graph: list: the service gave no list of children, or the same again",
    );
  return {
    ...frame,
    entries: value as DriveItem[],
    done: 0,
    // taken as it is: links are opaque
    next: typeof link === "string" ? link : undefined,
  };
}

/** One page asks so often at most and is short then, so that a page comes soon. */
const requestsPerPage = 16;
const maxKeptWalks = 16;
const keptMs = 30_000;

const operation = "graph: list";

/** Lists a root page by page. */
interface GraphLister {
  list(options: ListOptions): Promise<ListPage>;
}

/**
 * A cursor says after which entry to resume. The links of Graph stay here, at most 16 walks for 30
 * s each: links in a cursor could be forged, and would take the bearer along. Elsewhere, or later,
 * the names on the way to the entry are read again.
 */
export function createLister(route: GraphRoute): GraphLister {
  /** By prefix and the entry visited last, oldest first. A walk never changes, so a cursor may be used twice. */
  const walks = new Map<string, { readonly walk: DriveWalk; readonly until: number }>();

  const keep = (name: string, walk: DriveWalk): void => {
    walks.delete(name);
    walks.set(name, { walk, until: performance.now() + keptMs });
    const [oldest = ""] = walks.keys();
    if (walks.size > maxKeptWalks) walks.delete(oldest);
  };
  const recall = (name: string): DriveWalk | undefined => {
    const entry = walks.get(name);
    return entry !== undefined && entry.until > performance.now() ? entry.walk : undefined;
  };

  const findPage = async (
    { prefix, limit, after }: ListRequest,
    signal: AbortSignal | undefined,
  ): Promise<FoundPage> => {
    const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    if (after !== undefined && (checkKey(after) || !after.startsWith(folder)))
      throw new SluiceError(
        "invalid_argument",
        `${operation}: the cursor is not one of this listing`,
      );
    // nothing can be below a folder that cannot be
    if (folder !== "" && checkGraphKey(folder.slice(0, -1))) return { objects: [] };

    let walk =
      after === undefined
        ? await startWalk(route, folder, signal)
        : (recall(`${prefix}\n${after}`) ?? (await resumeWalk(route, folder, after, signal)));
    const objects: ObjectInfo[] = [];
    const tally = new UnlistedTally();
    let visited: string | undefined;
    for (let requests = 0; walk.length > 0;) {
      if (visited !== undefined && (objects.length === limit || requests >= requestsPerPage)) {
        keep(`${prefix}\n${visited}`, walk);
        return { objects, next: visited, ...definedMembers({ unlisted: tally.take() }) };
      }
      const stepped = await step(route, walk, { prefix, signal });
      walk = stepped.walk;
      if (stepped.asked) requests++;
      tally.add(stepped.unlisted);
      if (stepped.entry === undefined) continue;
      const { key, item } = stepped.entry;
      visited = key;
      if (isFile(item) && key.startsWith(prefix)) objects.push(toObjectInfo(key, item));
    }
    return { objects, ...definedMembers({ unlisted: tally.take() }) };
  };

  const store = route.address.toKey("");
  return {
    list: (options) =>
      listPage(options, { operation, store }, (request) => findPage(request, options.signal)),
  };
}
