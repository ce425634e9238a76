import { SluiceError } from "@sluice/core";
import { checkGraphKey } from "./address.ts";
import { type DriveItem, isFile } from "./drive-item.ts";

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
export function ensureFew(items: number): void {
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
