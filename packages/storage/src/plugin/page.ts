import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage } from "../contract/backend.ts";

const defaultObjects = 1000;

/** Settings of {@link listPage}. */
export interface PageOptions {
  /** Start of messages: `s3: list`. */
  readonly operation: string;
  /** The scope of cursors besides the prefix, such as bucket and root: those of another store are refused. */
  readonly store: string;
  /** Maximum objects of one page. Default: 1000, even for a caller that names no limit. */
  readonly maxObjects?: number;
}

/** A request to a service. */
export interface ListRequest {
  /** "" for every key. */
  readonly prefix: string;
  readonly limit: number;
  /** The `next` of the page before; absent for the first one. */
  readonly after: string | undefined;
}

/** A response of a service. */
export interface FoundPage extends Pick<ListPage, "objects" | "untyped" | "unlisted"> {
  /** Where the next page begins: a token of the service, or a key. Absent at the end. */
  readonly next?: string | undefined;
}

/**
 * One page of a listing. Checks limit and cursor (`invalid_argument`), and hands out what `read` gives as `next` in a
 * cursor that is bound to the store and the prefix: a service may take any token, and list from elsewhere.
 */
export async function listPage(
  { prefix = "", cursor, limit = defaultObjects, signal }: ListOptions,
  { operation, store, maxObjects = defaultObjects }: PageOptions,
  read: (request: ListRequest) => FoundPage | Promise<FoundPage>,
): Promise<ListPage> {
  signal?.throwIfAborted();
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new SluiceError("invalid_argument", `${operation}: limit ${limit} is not at least 1`);
  const scope = JSON.stringify([store, prefix]);
  const after = cursor === undefined ? undefined : parseCursor(cursor, operation, scope);
  const { next, ...page } = await read({ prefix, limit: Math.min(limit, maxObjects), after });
  return next === undefined ? page : { ...page, cursor: formatCursor(next, scope) };
}

/**
 * A cursor that carries a text (the key to resume after, the token of a service), with a check that tells
 * foreign and mangled ones apart. `scope` names what it belongs to, such as the store and the prefix.
 */
export function formatCursor(text: string, scope = ""): string {
  return `${checksum(scope, text)}.${encodeURIComponent(text)}`;
}

/** The text inside a cursor that {@link formatCursor} made for this scope; anything else throws `invalid_argument`. */
export function parseCursor(cursor: string, operation: string, scope = ""): string {
  const [, check, encoded] = /^([0-9a-f]{8})\.(.+)$/.exec(cursor) ?? [];
  try {
    const text = decodeURIComponent(encoded ?? "");
    if (check === checksum(scope, text)) return text;
  } catch {
    // not percent-encoding: not one of ours either
  }
  throw new SluiceError("invalid_argument", `${operation}: the cursor is not one of this store`);
}

/** 32-bit FNV-1a: it catches accidents; a cursor opens nothing that a listing would not. */
function checksum(scope: string, text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(`${scope}\0${text}`))
    hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
