import { SluiceError } from "@sluice/core";
import { backgroundClock, onAbort, sleep } from "@sluice/core/internal";
import type { ChangeBatch, WatchOptions } from "@sluice/storage";
import {
  createPause,
  createWatches,
  formatCursor,
  parseCursor,
  type Watches,
} from "@sluice/storage/plugin";
import { checkGraphKey } from "./address.ts";
import { type DriveItem, isFile } from "./drive-item.ts";
import type { GraphRoute } from "./graph-client.ts";
import type { Notifications } from "./notifications.ts";

/** Settings of {@link watchDrive}. */
export interface GraphWatchOptions extends GraphRoute {
  /** Longest time between two looks, in milliseconds. */
  readonly intervalMs: number;
  readonly notifications: Notifications | undefined;
}

interface State {
  readonly tree: DeltaTree;
  readonly link: string;
}

/**
 * Creates the watches of a root. The delta link comes before the first batch, so a subscription
 * that is made afterwards has no gap: what happens between is in the next look.
 */
export function watchDrive(options: GraphWatchOptions): Watches {
  const { client, address, intervalMs, notifications } = options;
  const scope = `${address.delta}\n${address.toKey("")}`;

  const begin = async (prefix: string, signal: AbortSignal): Promise<State> => {
    const target = address.toKey("");
    const root = await client.ask({ target, expect: [200], operation: "graph: watch", signal });
    const tree = new DeltaTree((root.body as DriveItem).id ?? "", prefix);
    const delta = await readDelta(options, undefined, signal);
    if (delta === undefined)
      throw new SluiceError("unavailable", "graph: watch: the service keeps starting over");
    tree.apply(delta.items);
    return { tree, link: delta.link };
  };

  async function* run({ prefix = "", cursor, signal }: WatchOptions): AsyncGenerator<ChangeBatch> {
    let resumePoint = cursor === undefined ? undefined : parseCursor(cursor, "graph: watch", scope);
    const pause = createPause(signal);
    if (notifications) onAbort(signal, notifications.onChange(pause.cutShort));
    let { tree, link } = await begin(prefix, signal);
    yield { cursor: formatCursor(link, scope) };
    for (let pauseMs = resumePoint === undefined ? intervalMs : 0; ; pauseMs = intervalMs) {
      await pause.wait(pauseMs);
      try {
        const delta = await readDelta(options, resumePoint ?? link, signal);
        resumePoint = undefined;
        if (delta === undefined) {
          ({ tree, link } = await begin(prefix, signal));
          yield { reset: true, cursor: formatCursor(link, scope) };
          continue;
        }
        const { changed, removed, isLost } = tree.apply(delta.items);
        ({ link } = delta);
        const next = formatCursor(link, scope);
        if (isLost) yield { reset: true, cursor: next };
        else if (changed.length + removed.length > 0) yield { changed, removed, cursor: next };
      } catch (error) {
        if (!SluiceError.is(error) || !error.retryable) throw error;
        // looking again later is what a watch does anyway
        await sleep(Math.max(intervalMs, error.retryAfterMs ?? 0), signal, backgroundClock);
      }
    }
  }

  return createWatches(run);
}

interface Delta {
  readonly items: readonly DriveItem[];
  /** Where the changes after that moment are. */
  readonly link: string;
}

/**
 * Reads all pages of changes, from the beginning or from a link. `undefined` when the service
 * has forgotten what was before (410): then only a new beginning helps.
 */
async function readDelta(
  { client, address }: GraphRoute,
  from: string | undefined,
  signal: AbortSignal,
): Promise<Delta | undefined> {
  const items: DriveItem[] = [];
  let target = from ?? address.delta;
  for (;;) {
    const { status, body } = await client.ask({
      target,
      expect: [200, 410],
      operation: "graph: watch",
      signal,
    });
    if (status === 410) return undefined;
    const page = (body ?? {}) as Record<string, unknown>;
    for (const item of Array.isArray(page["value"]) ? page["value"] : [])
      items.push(item as DriveItem);
    ensureFew(items.length);
    const next = page["@odata.nextLink"];
    const link = page["@odata.deltaLink"];
    // half of the pages is not a state: nothing is applied before the last one is there
    if (typeof next === "string") target = next;
    else if (typeof link === "string") return { items, link };
    else throw new SluiceError("protocol", "graph: watch: the service gave no delta link");
  }
}

/** More would be a good part of a process; a watch of less is one with its root further down. */
const maxItems = 100_000;

interface Node {
  readonly name: string;
  readonly parent: string;
  readonly isFile: boolean;
}

interface KeyChanges {
  readonly changed: string[];
  readonly removed: string[];
  /** An item changed that is not known: list again. */
  readonly isLost: boolean;
}

/** Throws `too_large` for more items than a watch keeps. */
function ensureFew(items: number): void {
  if (items > maxItems)
    throw new SluiceError("too_large", `graph: watch: the drive has more than ${maxItems} items`);
}

/**
 * The names of everything below the item `rootId` whose key begins with the prefix, by id: changes come without paths,
 * and removals even without names.
 */
export class DeltaTree {
  readonly #rootId: string;
  readonly #prefix: string;
  readonly #nodes = new Map<string, Node>();
  #keys: ReadonlyMap<string, string> = new Map();

  constructor(rootId: string, prefix: string) {
    this.#rootId = rootId;
    this.#prefix = prefix;
  }

  /** Takes over a complete set of changes and tells which keys it means. */
  apply(items: readonly DriveItem[]): KeyChanges {
    let isLost = false;
    const touched = new Set<string>();
    // an item may come several times: the last time counts
    for (const item of items) {
      if (item.id === undefined || item.id === this.#rootId || item.root) continue;
      const node = this.#nodes.get(item.id);
      if (item.deleted) {
        if (node === undefined) isLost = true;
        this.#nodes.delete(item.id);
        continue;
      }
      const name = item.name ?? node?.name;
      const parent = item.parentReference?.id ?? node?.parent;
      if (name === undefined || parent === undefined) {
        isLost = true;
        continue;
      }
      this.#nodes.set(item.id, { name, parent, isFile: isFile(item) });
      touched.add(item.id);
    }
    ensureFew(this.#nodes.size);
    const before = this.#keys;
    const keys = this.#readKeys();
    this.#keys = keys;
    const present = new Set(keys.values());
    const changed = [...keys].filter(([id, key]) => touched.has(id) || before.get(id) !== key);
    const goneItems = [...before].filter(([id, key]) => keys.get(id) !== key && !present.has(key));
    return {
      changed: changed.map(([, key]) => key),
      removed: goneItems.map(([, key]) => key),
      isLost,
    };
  }

  #keyOf(id: string): string | undefined {
    const names: string[] = [];
    for (let at = id, depth = 0; at !== this.#rootId; depth++) {
      const node = this.#nodes.get(at);
      if (node === undefined || depth > 500) return undefined;
      names.push(node.name);
      at = node.parent;
    }
    return names.toReversed().join("/");
  }

  #readKeys(): ReadonlyMap<string, string> {
    const keys = new Map<string, string>();
    for (const [id, node] of this.#nodes) {
      const key = node.isFile ? this.#keyOf(id) : undefined;
      if (key?.startsWith(this.#prefix) && checkGraphKey(key) === undefined) keys.set(id, key);
    }
    return keys;
  }
}
