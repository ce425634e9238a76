import type { Principal } from "@sluice/core";
import type { ListPage, ObjectInfo } from "@sluice/storage";
import type { SluiceParts } from "./sluice-parts.ts";
import { storageFault } from "./storage-fault.ts";

/** Which page somebody asks for. */
export interface PageRequest {
  readonly principal: Principal | undefined;
  /** Of storage. */
  readonly cursor: string | undefined;
  /** Most objects on it. */
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** What may be shown of storage, and how many objects were kept back on the way. */
export interface VisiblePage extends ListPage {
  readonly withheld: number;
}

/** Objects looked at for one answer. Where more are hidden in a row, pages are shorter than they need be. */
const mostObjects = 10_000;
const aheadLimit = 100;

/**
 * A page as a storage would give it that has only what the principal may list: it is filled up for
 * what is hidden, and says that there is more only when there is something to show. Without access
 * rules it costs one call to storage, with them one more.
 */
export async function visiblePage(
  parts: Pick<SluiceParts, "storageOf" | "mapper" | "access">,
  { principal, cursor, limit, signal }: PageRequest,
): Promise<VisiblePage> {
  const { access, mapper } = parts;
  const storage = parts.storageOf(principal);
  let looked = 0;

  async function look(
    from: string | undefined,
    most: number,
  ): Promise<{ page: ListPage; visible: ObjectInfo[] }> {
    const page = await storage
      .list({ limit: most, signal, ...(from !== undefined && { cursor: from }) })
      .catch((error: unknown) => Promise.reject(storageFault(error)));
    looked += Math.max(page.objects.length, 1);
    const uris = page.objects.map(({ key }) => mapper.toUri(key));
    const decisions = await access.decideAll(principal, uris, "list");
    return { page, visible: page.objects.filter((_, at) => decisions[at] === "allow") };
  }

  async function isMoreAfter(end: string): Promise<boolean> {
    let from: string | undefined = end;
    for (let most = 1; from !== undefined && looked < mostObjects; most = aheadLimit) {
      const { page, visible } = await look(from, most);
      if (visible.length > 0) return true;
      from = page.cursor;
    }
    return from !== undefined;
  }

  const objects: ObjectInfo[] = [];
  let withheld = 0;
  let from = cursor;
  let keptBack: number;
  do {
    const { page, visible } = await look(from, limit - objects.length);
    keptBack = page.objects.length - visible.length;
    withheld += keptBack;
    objects.push(...visible);
    from = page.cursor;
    // a page that storage itself made short stays so
  } while (keptBack > 0 && from !== undefined && objects.length < limit && looked < mostObjects);
  const hasMore = from !== undefined && (!access.hasRules || (await isMoreAfter(from)));
  return { objects, withheld, ...(hasMore && { cursor: from! }) };
}
