import { SluiceError, type Principal } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ListPage, ObjectInfo, StorageBackend, UriMapper } from "@sluice/storage";
import type { Access } from "../access/access.ts";
import { rethrowStorageFault } from "../faults/storage-fault.ts";
import type { StorageAccess } from "../storage/authorized-storage.ts";

export interface PageRequest {
  readonly principal: Principal | undefined;
  /** Only objects whose keys begin with it. Default: all. */
  readonly prefix?: string;
  /** Of an earlier page of the same prefix. It names objects: seal it before it goes out. */
  readonly cursor: string | undefined;
  /** Maximum objects on it. */
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** What may be shown of storage, and how many objects were kept back on the way. */
export interface VisiblePage extends ListPage {
  readonly withheld: number;
}

/** Objects looked at for one response. Where more are hidden in a row, pages are shorter than they need be. */
const maxObjects = 10_000;

export interface VisiblePageOptions {
  readonly storageAccess: StorageAccess;
  readonly access: Access;
  readonly mapper: UriMapper;
}

/**
 * A page of storage with only the objects that the principal may list. Further objects fill the places of hidden ones, and
 * the page has a cursor only when there is more to show. Without access
 * rules it costs one call to storage. With them it looks one object ahead and the cursor keeps that one's
 * name: looking at the same place again would cost some storages the whole way there.
 */
export async function visiblePage(
  { storageAccess, access, mapper }: VisiblePageOptions,
  { principal, prefix, cursor, limit, signal }: PageRequest,
): Promise<VisiblePage> {
  const storage = storageAccess.backendFor(principal);
  if (!storage) return { objects: [], withheld: 0 };
  const backend: StorageBackend = storage;
  let { from, ahead } = readPosition(cursor);
  let isOver = cursor !== undefined && from === undefined;
  let looked = 0;
  let withheld = 0;

  async function isVisible(objects: readonly ObjectInfo[]): Promise<boolean[]> {
    const uris = objects.map(({ key }) => mapper.toUri(key));
    const decisions = await access.decideAll(principal, uris, "list");
    return decisions.map((decision) => decision === "allow");
  }

  async function look(most: number): Promise<ListPage> {
    const page = await backend
      .list(definedMembers({ prefix, limit: most, signal, cursor: from }))
      .catch(rethrowStorageFault);
    looked += Math.max(page.objects.length, 1);
    return page;
  }

  function goOn(page: ListPage): void {
    from = page.cursor;
    isOver = from === undefined;
  }

  if (!access.hasRules) {
    const page = await look(limit);
    goOn(page);
    const { objects } = page;
    const { untyped, unlisted } = page;
    const next = isOver ? undefined : formatPosition({ from });
    return { objects, withheld, ...definedMembers({ untyped, unlisted, cursor: next }) };
  }
  // with rules nothing tells of unlisted entries: their keys cannot be put to the rules
  const objects: ObjectInfo[] = [];
  if (ahead !== undefined) {
    const info = await backend.describe(ahead, { signal }).catch(ignoreAbsent);
    const [isShown] = info ? await isVisible([info]) : [];
    if (info && isShown) objects.push(info);
    else if (info) withheld += 1;
  }
  let hiddenInARow = 0;
  let untyped: true | undefined;
  while (!isOver && objects.length <= limit && looked < maxObjects) {
    const wantedCount = limit + 1 - objects.length;
    let page = await look(Math.max(wantedCount, Math.floor(hiddenInARow / 8)));
    let visible = await isVisible(page.objects);
    // the cursor cannot stand amid a page; seldom, for the look is short beside what was hidden before
    for (let end; (end = positionOf(visible, wantedCount)) < page.objects.length;) {
      page = await look(end);
      visible = await isVisible(page.objects);
    }
    goOn(page);
    untyped ??= page.untyped;
    const shown = page.objects.filter((_, at) => visible[at]);
    withheld += page.objects.length - shown.length;
    hiddenInARow = shown.length > 0 ? 0 : hiddenInARow + page.objects.length;
    objects.push(...shown);
  }
  ahead = objects.splice(limit)[0]?.key;
  const hasMore = ahead !== undefined || !isOver;
  const next = hasMore ? formatPosition({ from, ahead }) : undefined;
  return { objects, withheld, ...definedMembers({ untyped, cursor: next }) };
}

/** Behind the n-th that is visible; the end when there are fewer. */
function positionOf(visible: readonly boolean[], n: number): number {
  let left = n;
  const at = visible.findIndex((isVisible) => isVisible && --left === 0);
  return at < 0 ? visible.length : at + 1;
}

/** Where the next page goes on: with one object that was looked at already, then in storage. */
interface Position {
  /** Cursor of storage; `undefined` at its end, or before its start. */
  from?: string | undefined;
  ahead?: string | undefined;
}

function formatPosition({ from = "", ahead = "" }: Position): string {
  return JSON.stringify([from, ahead]);
}

function readPosition(cursor: string | undefined): Position {
  if (cursor === undefined) return {};
  const [from, ahead] = JSON.parse(cursor) as [string, string];
  return { from: from || undefined, ahead: ahead || undefined };
}

/** An object gone since the last page is not a fault. */
function ignoreAbsent(error: unknown): undefined {
  if (SluiceError.is(error) && absences.has(error.code)) return undefined;
  return rethrowStorageFault(error);
}

const absences: ReadonlySet<string> = new Set(["not_found", "permission_denied", "unsupported"]);
