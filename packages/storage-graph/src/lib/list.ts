import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage, ObjectInfo } from "@sluice/storage";
import { checkKey, formatCursor, parseCursor, resolveLimit } from "@sluice/storage/plugin";
import { checkGraphKey } from "./address.ts";
import { isFile, toObjectInfo } from "./drive-item.ts";
import { resumeWalk, startWalk, step, type DriveWalk, type WalkRoute } from "./walk.ts";

const pageLimit = 1000;
/** One page asks so often at most and is short then, so that a page comes soon. */
const requestsPerPage = 16;
const mostKeptWalks = 16;
const keptMs = 30_000;

const operation = "graph: list";

/** Lists a root page by page. */
export interface GraphLister {
  list(options: ListOptions): Promise<ListPage>;
}

/**
 * A cursor says after which entry to go on. The links of Graph stay here, at most 16 walks for
 * 30 s each: links in a cursor could be forged, and would take the bearer along. Elsewhere, or
 * later, the names on the way to the entry are read again.
 */
export function createLister(route: WalkRoute): GraphLister {
  /** By cursor, oldest first. A walk never changes, so a cursor may be used twice. */
  const kept = new Map<string, { readonly walk: DriveWalk; readonly until: number }>();

  const keep = (cursor: string, walk: DriveWalk): void => {
    kept.delete(cursor);
    kept.set(cursor, { walk, until: performance.now() + keptMs });
    const [oldest = ""] = kept.keys();
    if (kept.size > mostKeptWalks) kept.delete(oldest);
  };
  const recall = (cursor: string): DriveWalk | undefined => {
    const entry = kept.get(cursor);
    return entry !== undefined && entry.until > performance.now() ? entry.walk : undefined;
  };

  return {
    async list({ prefix = "", cursor, limit, signal }) {
      signal?.throwIfAborted();
      const most = resolveLimit(limit, pageLimit, operation);
      const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
      const scope = `${route.address.toKey("")}\n${prefix}`;
      const position = cursor === undefined ? undefined : parseCursor(cursor, operation, scope);
      if (position !== undefined && (checkKey(position) || !position.startsWith(folder)))
        throw new SluiceError(
          "invalid_argument",
          `${operation}: the cursor is not one of this listing`,
        );
      // nothing can be below a folder that cannot be
      if (folder !== "" && checkGraphKey(folder.slice(0, -1))) return { objects: [] };

      let walk =
        cursor !== undefined && position !== undefined
          ? (recall(cursor) ?? (await resumeWalk(route, folder, position, signal)))
          : await startWalk(route, folder, signal);
      const objects: ObjectInfo[] = [];
      let visited: string | undefined;
      for (let requests = 0; walk.length > 0;) {
        if (visited !== undefined && (objects.length === most || requests >= requestsPerPage)) {
          const next = formatCursor(visited, scope);
          keep(next, walk);
          return { objects, cursor: next };
        }
        const taken = await step(route, walk, { prefix, signal });
        walk = taken.walk;
        if (taken.asked) requests++;
        if (taken.entry === undefined) continue;
        const { key, item } = taken.entry;
        visited = key;
        if (isFile(item) && key.startsWith(prefix)) objects.push(toObjectInfo(key, item));
      }
      return { objects };
    },
  };
}
