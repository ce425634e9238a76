import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage } from "@sluice/storage";
import { checkKey, formatCursor, parseCursor, resolveLimit } from "@sluice/storage/plugin";
import type { Dispatcher } from "undici";
import { statusError } from "./errors.ts";

const pageLimit = 1000;

/** The keys in `index.json`, in order. A server without one lists nothing. */
export async function readIndex(
  { statusCode, headers, body }: Dispatcher.ResponseData,
  operation: string,
): Promise<string[]> {
  if (statusCode !== 200) {
    await body.dump();
    if (statusCode === 404) return [];
    throw statusError(statusCode, headers, operation);
  }
  try {
    const keys = (await body.json()) as string[];
    // a name that is no legal key cannot be opened, so it is not listed
    return keys.filter((key) => checkKey(key) === undefined).toSorted();
  } catch (error) {
    throw new SluiceError("corrupt", `${operation}: index.json is not an array of keys`, {
      cause: error,
    });
  }
}

/** One page of the keys. A cursor says "after this key", so it works in any process at any time. */
export function toPage(
  keys: readonly string[],
  { prefix = "", cursor, limit }: ListOptions,
  operation: string,
): ListPage {
  const most = resolveLimit(limit, pageLimit, operation);
  const after = cursor === undefined ? "" : parseCursor(cursor, operation, prefix);
  const rest = keys.filter((key) => key.startsWith(prefix) && key > after);
  const page = rest.slice(0, most);
  const objects = page.map((key) => ({ key }));
  const last = page.at(-1);
  // the index tells no types
  if (last === undefined || page.length === rest.length) return { objects, untyped: true };
  return { objects, cursor: formatCursor(last, prefix), untyped: true };
}
