import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage } from "@sluice/storage";
import { checkKey, formatCursor, parseCursor } from "@sluice/storage/plugin";
import type { Dispatcher } from "undici";
import { statusError } from "./errors.ts";

const pageLimit = 1000;

/** The keys in `index.json`, in order. A server without one lists nothing. */
export async function readIndex(
  { statusCode, headers, body }: Dispatcher.ResponseData,
  who: string,
): Promise<string[]> {
  if (statusCode !== 200) {
    await body.dump();
    if (statusCode === 404) return [];
    throw statusError(statusCode, headers, who);
  }
  try {
    const keys = (await body.json()) as string[];
    // what is no legal key cannot be asked for, so it is not listed either
    return keys.filter((key) => checkKey(key) === undefined).toSorted();
  } catch (error) {
    throw new SluiceError("corrupt", `${who}: index.json is not an array of keys`, {
      cause: error,
    });
  }
}

/** One page of the keys. A cursor says "after this key", so it works in any process at any time. */
export function toPage(
  keys: readonly string[],
  { prefix = "", cursor, limit = pageLimit }: ListOptions,
  who: string,
): ListPage {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new SluiceError("invalid_argument", `${who}: limit ${limit} is not at least 1`);
  const after = cursor === undefined ? "" : parseCursor(cursor, who, prefix);
  const rest = keys.filter((key) => key.startsWith(prefix) && key > after);
  const page = rest.slice(0, Math.min(limit, pageLimit));
  const objects = page.map((key) => ({ key }));
  const last = page.at(-1);
  // the index tells no types
  if (last === undefined || page.length === rest.length) return { objects, untyped: true };
  return { objects, cursor: formatCursor(last, prefix), untyped: true };
}
