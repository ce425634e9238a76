import { SluiceError } from "@sluice/core";
import { ensureFew } from "./delta-tree.ts";
import type { DriveItem } from "./drive-item.ts";
import type { GraphRoute } from "./graph-client.ts";

/** Changes of a drive up to a moment. */
export interface Delta {
  readonly items: readonly DriveItem[];
  /** Where the changes after that moment are. */
  readonly link: string;
}

/**
 * Reads all pages of changes, from the beginning or from a link. `undefined` when the service
 * has forgotten what was before (410): then only a new beginning helps.
 */
export async function readDelta(
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
    // half of the pages is no state: nothing is applied before the last one is there
    if (typeof next === "string") target = next;
    else if (typeof link === "string") return { items, link };
    else throw new SluiceError("protocol", "graph: watch: the service gave no delta link");
  }
}
