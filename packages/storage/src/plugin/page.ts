import { SluiceError } from "@sluice/core";
import type { ListOptions, ListPage } from "../contract/backend.ts";
import { formatCursor, parseCursor } from "./cursor.ts";

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
export interface FoundPage extends Pick<ListPage, "objects" | "untyped"> {
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
