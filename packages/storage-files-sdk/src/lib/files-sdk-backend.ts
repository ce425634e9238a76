import {
  type BackendCall,
  checkKey,
  defineBackend,
  definedMembers,
  type ListOptions,
  listPage,
  type ListPage,
  type PresignedUrl,
  type PresignOptions,
  type ServiceCall,
  SluiceError,
  type StorageBackend,
  UnlistedTally,
} from "@sluice/storage/plugin";
import type { Adapter } from "files-sdk";
import { callAdapter } from "./files-error.ts";
import { type AdapterFileInfo, openFile, toListedInfo, toObjectInfo } from "./open-file.ts";

/** Settings of {@link createFilesSdkBackend}. */
export interface FilesSdkBackendOptions {
  /** One of the adapters of files-sdk, such as `gcs({ bucket })`. It is one principal and one root. */
  readonly adapter: Adapter;
  /**
   * Have a `presign` that hands out the adapter's URLs. Only for adapters that sign for exactly as
   * long as they are asked to, with credentials that last longer than the URLs, and without a
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
  const { supported = false, maxExpiresIn = Infinity } = adapter.signedUrl ?? {};
  if (presign && !supported)
    throw new TypeError(
      `files-sdk: the adapter "${adapter.name}" does not sign URLs: leave presign out`,
    );
  // #region define
  return defineBackend({
    name: "files-sdk",

    describe: (key, call) => head(adapter, key, call),

    async open(key, call) {
      const look = (): Promise<AdapterFileInfo> => head(adapter, key, call);
      return openFile(adapter, await look(), look, call);
    },

    list: (call) => list(adapter, call),

    presign: presign ? (key, call) => sign(adapter, key, maxExpiresIn, call) : undefined,
  });
  // #endregion
}

async function head(adapter: Adapter, key: string, call: ServiceCall): Promise<AdapterFileInfo> {
  const options = definedMembers({ signal: call.signal });
  return toObjectInfo(key, await callAdapter(call, () => adapter.head(key, options)));
}

function list(
  adapter: Adapter,
  { operation, ...options }: BackendCall<ListOptions>,
): Promise<ListPage> {
  const { signal } = options;
  const store = adapter.name;
  return listPage(options, { operation, store }, async ({ prefix, limit, after }) => {
    const query = { prefix: prefix || undefined, cursor: after, signal };
    const page = await callAdapter({ operation, signal }, () =>
      adapter.list({ limit, ...definedMembers(query) }),
    );
    // folder markers and other names that cannot be asked for
    const legal = page.items.filter(({ key }) => checkKey(key) === undefined);
    const tally = new UnlistedTally();
    for (const { key } of page.items) tally.addName(key);
    const objects = legal.map((item) => toListedInfo(item.key, item));
    return {
      objects,
      next: page.cursor,
      untyped: true,
      ...definedMembers({ unlisted: tally.take() }),
    };
  });
}

/** All or nothing: adapters can sign a disposition, but no type other than the stored one. */
async function sign(
  adapter: Adapter,
  key: string,
  maxExpiresIn: number,
  { expiresInMs, contentType, contentDisposition, ...call }: BackendCall<PresignOptions>,
): Promise<PresignedUrl | undefined> {
  const info = await head(adapter, key, call);
  const expiresIn = Math.min(Math.floor(expiresInMs / 1000), maxExpiresIn);
  if (expiresIn < 1 || (contentType !== undefined && contentType !== info.contentType))
    return undefined;
  const expiresAt = Date.now() + expiresIn * 1000;
  try {
    const url = await callAdapter(call, () =>
      adapter.url(key, {
        expiresIn,
        ...definedMembers({ responseContentDisposition: contentDisposition, signal: call.signal }),
      }),
    );
    return { url, expiresAt };
  } catch (error) {
    // an adapter that cannot sign a disposition refuses it
    if (SluiceError.is(error) && error.code === "unsupported") return undefined;
    throw error;
  }
}
