import { definedMembers, SluiceError } from "@sluice/core";
import type {
  ListOptions,
  ListPage,
  PresignedUrl,
  PresignOptions,
  StorageBackend,
} from "@sluice/storage";
import {
  checkKey,
  ensureKey,
  ensureRange,
  formatCursor,
  parseCursor,
  quoteKey,
  resolveLimit,
} from "@sluice/storage/plugin";
import type { Adapter } from "files-sdk";
import { callAdapter } from "./call.ts";
import { type AdapterFileInfo, toListedInfo, toObjectInfo } from "./object-info.ts";
import { openFile } from "./open-file.ts";

const pageLimit = 1000;

/** Settings of {@link createFilesSdkBackend}. */
export interface FilesSdkBackendOptions {
  /** One of the adapters of files-sdk, such as `gcs({ bucket })`. It is one principal and one root. */
  readonly adapter: Adapter;
  /**
   * Have a `presign` that hands out the adapter's URLs. Only for adapters that sign for exactly as
   * long as they are asked to, with credentials that outlive the URLs, and without a
   * `publicBaseUrl`: an adapter does not tell. Default: false.
   */
  readonly presign?: boolean;
}

/**
 * Creates a read-only backend over an adapter of files-sdk, one of version 2.6 or later.
 *
 * Throws a `TypeError` when `presign` is asked of an adapter that does not sign.
 */
export function createFilesSdkBackend(options: FilesSdkBackendOptions): StorageBackend {
  const { adapter, presign = false } = options;
  const backend = {
    name: "files-sdk",

    describe: (key, { signal } = {}) => head(adapter, key, "files-sdk: describe", signal),

    async open(key, openOptions = {}) {
      const { range, signal } = openOptions;
      const operation = "files-sdk: open";
      if (range !== undefined) ensureRange(range, operation);
      const look = (): Promise<AdapterFileInfo> => head(adapter, key, operation, signal);
      return openFile(adapter, await look(), look, openOptions);
    },

    list: (listOptions = {}) => list(adapter, listOptions),
  } satisfies StorageBackend;
  if (!presign) return backend;
  const { supported = false, maxExpiresIn = Infinity } = adapter.signedUrl ?? {};
  if (!supported)
    throw new TypeError(
      `files-sdk: the adapter "${adapter.name}" signs no URLs: leave presign out`,
    );
  return {
    ...backend,
    presign: (key, presignOptions) => sign(adapter, key, maxExpiresIn, presignOptions),
  };
}

async function head(
  adapter: Adapter,
  key: string,
  method: string,
  signal: AbortSignal | undefined,
): Promise<AdapterFileInfo> {
  signal?.throwIfAborted();
  ensureKey(key, method);
  const call = { operation: `${method} ${quoteKey(key)}`, signal };
  const file = await callAdapter(call, () => adapter.head(key, definedMembers({ signal })));
  return toObjectInfo(key, file);
}

async function list(
  adapter: Adapter,
  { prefix = "", cursor, limit, signal }: ListOptions,
): Promise<ListPage> {
  const operation = "files-sdk: list";
  signal?.throwIfAborted();
  const most = resolveLimit(limit, pageLimit, operation);
  // some adapters take any text for a cursor, and list from the wrong place
  const scope = JSON.stringify([adapter.name, prefix]);
  const from = cursor === undefined ? undefined : parseCursor(cursor, operation, scope);
  const page = await callAdapter({ operation, signal }, () =>
    adapter.list({
      limit: most,
      ...definedMembers({ prefix: prefix || undefined, cursor: from, signal }),
    }),
  );
  // folder markers and other names that cannot be asked for
  const legal = page.items.filter(({ key }) => checkKey(key) === undefined);
  const objects = legal.map((item) => toListedInfo(item.key, item));
  if (page.cursor === undefined) return { objects, untyped: true };
  return { objects, cursor: formatCursor(page.cursor, scope), untyped: true };
}

/** All or nothing: adapters can sign a disposition, but no type other than the stored one. */
async function sign(
  adapter: Adapter,
  key: string,
  maxExpiresIn: number,
  { expiresInMs, contentType, contentDisposition, signal }: PresignOptions,
): Promise<PresignedUrl | undefined> {
  const method = "files-sdk: presign";
  const info = await head(adapter, key, method, signal);
  const expiresIn = Math.min(Math.floor(expiresInMs / 1000), maxExpiresIn);
  if (expiresIn < 1 || (contentType !== undefined && contentType !== info.contentType))
    return undefined;
  const expiresAt = new Date(Date.now() + expiresIn * 1000);
  const call = { operation: `${method} ${quoteKey(key)}`, signal };
  try {
    const url = await callAdapter(call, () =>
      adapter.url(key, {
        expiresIn,
        ...definedMembers({ responseContentDisposition: contentDisposition, signal }),
      }),
    );
    return { url, expiresAt };
  } catch (error) {
    // an adapter that cannot sign a disposition refuses it
    if (SluiceError.is(error) && error.code === "unsupported") return undefined;
    throw error;
  }
}
