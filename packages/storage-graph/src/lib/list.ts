import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage, ObjectInfo } from "@sluice/storage";
import { checkKey, type FoundPage, listPage, type ListRequest } from "@sluice/storage/plugin";
import { checkGraphKey } from "./address.ts";
import { isFile, toObjectInfo } from "./drive-item.ts";
import type { GraphRoute } from "./graph-client.ts";
import { resumeWalk, startWalk, step, type DriveWalk } from "./walk.ts";

/** One page asks so often at most and is short then, so that a page comes soon. */
const requestsPerPage = 16;
const maxKeptWalks = 16;
const keptMs = 30_000;

const operation = "graph: list";

/** Lists a root page by page. */
export interface GraphLister {
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
    let visited: string | undefined;
    for (let requests = 0; walk.length > 0;) {
      if (visited !== undefined && (objects.length === limit || requests >= requestsPerPage)) {
        keep(`${prefix}\n${visited}`, walk);
        return { objects, next: visited };
      }
      const stepped = await step(route, walk, { prefix, signal });
      walk = stepped.walk;
      if (stepped.asked) requests++;
      if (stepped.entry === undefined) continue;
      const { key, item } = stepped.entry;
      visited = key;
      if (isFile(item) && key.startsWith(prefix)) objects.push(toObjectInfo(key, item));
    }
    return { objects };
  };

  const store = route.address.toKey("");
  return {
    list: (options) =>
      listPage(options, { operation, store }, (request) => findPage(request, options.signal)),
  };
}
