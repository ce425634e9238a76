import type { ObjectInfo, StorageBackend } from "@sluice/storage";
import { ensureRange, quoteKey, unlessMissing } from "@sluice/storage/plugin";
import { createAddress, ensureGraphKey, type GraphRoot } from "./address.ts";
import { ensureMatch, type DriveFile, selectItem, toFoundFile } from "./drive-item.ts";
import { mintUrl, openDownload } from "./download.ts";
import { createGraphClient } from "./graph-client.ts";
import { createLister } from "./list.ts";
import type { Notifications } from "./notifications.ts";
import { createTokenSource, type TokenCredential } from "./tokens.ts";
import { createGraphWatch } from "./watch.ts";
import { createGraphWriter } from "./writer.ts";

export type { GraphRoot } from "./address.ts";

/** Download URLs live "a few minutes" by one page of Microsoft and an hour by another; so long they surely do. */
const urlLifeMs = 2 * 60_000;

/** Settings of {@link createGraphBackend}. */
export interface GraphBackendOptions {
  /** Gives bearer tokens: any credential of `@azure/identity`. */
  readonly credential: TokenCredential;
  /** Id of the drive: a OneDrive, or a document library of SharePoint. */
  readonly driveId: string;
  /** The folder to serve, by id or by path. Default: the whole drive. */
  readonly root?: GraphRoot;
  /**
   * Scheme and host of Graph, also the audience of its tokens; national clouds have hosts of their own.
   * Plain HTTP is for this machine only. Default: `https://graph.microsoft.com`.
   */
  readonly baseUrl?: string;
  /** Give the backend a `write` and a `remove`. Default: false. */
  readonly writable?: boolean;
  /** How requests name their sender, as Microsoft asks: `NONISV|Company|App/1.0`. Default: `NONISV|Sluice|storage-graph`. */
  readonly userAgent?: string;
  /** Longest time between two looks for changes, in milliseconds. Default: 30,000. */
  readonly watchIntervalMs?: number;
  /** The receiving end of a subscription: watches look at once when it is notified. */
  readonly notifications?: Notifications;
}

/**
 * Creates a backend over a drive of Microsoft Graph, or one folder of it. Nothing is asked yet.
 * Throws `TypeError` when `baseUrl` is no HTTPS origin, or the path of the root is none.
 */
export function createGraphBackend(options: GraphBackendOptions): StorageBackend {
  const { driveId, credential: given } =
    (options as Partial<GraphBackendOptions> | undefined) ?? {};
  if (!driveId || !given)
    throw new TypeError(
      "createGraphBackend: pass the driveId of a drive, and a credential, such as one of @azure/identity",
    );
  const { credential, writable = false, watchIntervalMs = 30_000, notifications } = options;
  const baseUrl = toBaseUrl(options.baseUrl ?? "https://graph.microsoft.com");
  const address = createAddress(options.driveId, options.root);
  const client = createGraphClient({
    baseUrl,
    tokens: createTokenSource(credential, `${baseUrl}/.default`),
    userAgent: options.userAgent ?? "NONISV|Sluice|storage-graph",
  });
  const route = { client, address };
  const lister = createLister(route);
  const watches = createGraphWatch({ ...route, intervalMs: watchIntervalMs, notifications });

  const find = async (
    method: string,
    key: string,
    signal: AbortSignal | undefined,
  ): Promise<DriveFile> => {
    signal?.throwIfAborted();
    ensureGraphKey(key, `graph: ${method}`);
    const operation = `graph: ${method} ${quoteKey(key)}`;
    const target = `${address.toKey(key)}?${selectItem}`;
    const { body } = await client.ask({ target, expect: [200], operation, signal });
    return toFoundFile(body ?? {}, key, address.driveId, operation);
  };
  const describe = async (key: string, signal: AbortSignal | undefined): Promise<ObjectInfo> =>
    (await find("describe", key, signal)).info;

  /** By id, so that it is a file that goes: behind a path there may be a folder meanwhile, with all that is in it. */
  const removeFile = async (key: string, signal: AbortSignal | undefined): Promise<void> => {
    const { id } = await find("remove", key, signal);
    const operation = `graph: remove ${quoteKey(key)}`;
    const target = address.toItem(id);
    await client.ask({ method: "DELETE", target, expect: [204], operation, signal });
  };

  const backend = {
    name: "graph",

    describe: (key, { signal } = {}) => describe(key, signal),

    async open(key, { range, ifMatch, signal } = {}) {
      signal?.throwIfAborted();
      const operation = `graph: open ${quoteKey(key)}`;
      if (range !== undefined) ensureRange(range, operation);
      const file = await find("open", key, signal);
      ensureMatch(file.info, ifMatch, "graph: open");
      const {
        size,
        range: resolved,
        body,
      } = await openDownload(route, file, { range, operation, signal });
      const info = size === undefined ? file.info : { ...file.info, size };
      return resolved === undefined ? { info, body } : { info, range: resolved, body };
    },

    list: (listOptions = {}) => lister.list(listOptions),

    async presign(key, { expiresInMs, contentType, contentDisposition, signal }) {
      ensureGraphKey(key, "graph: presign");
      // Graph's URLs take no wishes
      if (contentType !== undefined || contentDisposition !== undefined) return undefined;
      const file = await find("presign", key, signal);
      const expiresAt = new Date(Date.now() + Math.min(expiresInMs, urlLifeMs));
      const operation = `graph: presign ${quoteKey(key)}`;
      return { url: await mintUrl(route, file.id, { operation, signal }), expiresAt };
    },

    watch: (watchOptions) => watches.watch(watchOptions),

    async close() {
      watches.close();
      await client.close();
    },
  } satisfies StorageBackend;
  if (!writable) return backend;
  return {
    ...backend,
    write: (key, writeOptions = {}) => createGraphWriter({ ...route, describe }, key, writeOptions),
    // into the recycle bin, where users find it
    remove: (key, { signal } = {}) => unlessMissing(removeFile(key, signal)),
  };
}

/** The origin without a slash. Tokens go there, so it is HTTPS, or this machine. */
function toBaseUrl(text: string): string {
  const { protocol, hostname, origin, pathname, search } = new URL(text);
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  if (
    pathname !== "/" ||
    search !== "" ||
    (protocol !== "https:" && !(protocol === "http:" && isLocal))
  )
    throw new TypeError(`graph: "${origin}": baseUrl must be an HTTPS origin without a path`);
  return origin;
}
