import type { StorageBackend, WritableBackend } from "@sluice/storage";
import { ensureCondition, unlessMissing } from "@sluice/storage/plugin";
import { Address, beginCall, type GraphRoot } from "./address.ts";
import { mintUrl, openDownload } from "./download/open-download.ts";
import { type FileCall, findFile } from "./find-file.ts";
import { createGraphClient } from "./graph-client.ts";
import { createLister } from "./walk.ts";
import type { Notifications } from "./notifications.ts";
import { type TokenCredential, TokenSource } from "./tokens.ts";
import { watchDrive } from "./watch.ts";
import { writeFile } from "./writer.ts";

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
   * Scheme and host of Graph, and the audience of its tokens; national clouds have their own hosts.
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
 * Throws `TypeError` when `baseUrl` is not an HTTPS origin, or for an invalid path of the root.
 */
export function createGraphBackend(
  options: GraphBackendOptions & { readonly writable: true },
): WritableBackend;
export function createGraphBackend(options: GraphBackendOptions): StorageBackend;
export function createGraphBackend(options: GraphBackendOptions): StorageBackend {
  const { driveId, credential: given } =
    (options as Partial<GraphBackendOptions> | undefined) ?? {};
  if (!driveId || !given)
    throw new TypeError(
      "createGraphBackend: pass the driveId of a drive, and a credential, such as one of @azure/identity",
    );
  const { credential, writable = false, watchIntervalMs = 30_000, notifications } = options;
  const baseUrl = toBaseUrl(options.baseUrl ?? "https://graph.microsoft.com");
  const address = new Address(options.driveId, options.root);
  const client = createGraphClient({
    baseUrl,
    tokens: new TokenSource(credential, `${baseUrl}/.default`),
    userAgent: options.userAgent ?? "NONISV|Sluice|storage-graph",
  });
  const route = { client, address };
  const lister = createLister(route);
  const watches = watchDrive({ ...route, intervalMs: watchIntervalMs, notifications });

  /** By id, so that it is a file that goes: at a path there may be a folder by now, with all that is in it. */
  const removeFile = async (key: string, call: FileCall): Promise<void> => {
    const { id } = await findFile(route, key, call);
    await client.ask({ method: "DELETE", target: address.toItem(id), expect: [204], ...call });
  };

  const backend = {
    name: "graph",

    async describe(key, { signal } = {}) {
      const operation = beginCall("describe", key, { signal });
      return (await findFile(route, key, { operation, signal })).info;
    },

    async open(key, { range, ifMatch, signal } = {}) {
      const operation = beginCall("open", key, { range, signal });
      const file = await findFile(route, key, { operation, signal });
      ensureCondition(file.info, { ifMatch }, operation);
      return openDownload(route, file, { range, operation, signal });
    },

    list: (listOptions = {}) => lister.list(listOptions),

    async presign(key, { expiresInMs, contentType, contentDisposition, signal }) {
      const call = { operation: beginCall("presign", key, { signal }), signal };
      // Graph's URLs take no wishes
      if (contentType !== undefined || contentDisposition !== undefined) return undefined;
      const file = await findFile(route, key, call);
      const expiresAt = Date.now() + Math.min(expiresInMs, urlLifeMs);
      return { url: await mintUrl(route, file.id, call), expiresAt };
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
    write: (key, writeOptions = {}) => writeFile(route, key, writeOptions),
    // into the recycle bin, where users find it
    async remove(key, { signal } = {}) {
      const operation = beginCall("remove", key, { signal });
      await unlessMissing(removeFile(key, { operation, signal }));
    },
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
