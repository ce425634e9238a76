import { checkKey, type FoundPage, type ListRequest, SluiceError } from "@sluice/storage/plugin";
import type { Dispatcher } from "undici";
import { statusError } from "./errors.ts";

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
    // a name that is not a legal key cannot be opened, so it is not listed
    return keys.filter((key) => checkKey(key) === undefined).toSorted();
  } catch (error) {
    throw new SluiceError("corrupt", `${operation}: index.json is not an array of keys`, {
      cause: error,
    });
  }
}

/** One page of the keys. The next one begins after its last key, so a cursor works in any process at any time. */
export function pageOf(
  keys: readonly string[],
  { prefix, limit, after = "" }: ListRequest,
): FoundPage {
  const rest = keys.filter((key) => key.startsWith(prefix) && key > after);
  const page = rest.slice(0, limit);
  const next = page.length < rest.length ? page.at(-1) : undefined;
  // the index tells no types
  return { objects: page.map((key) => ({ key })), next, untyped: true };
}
