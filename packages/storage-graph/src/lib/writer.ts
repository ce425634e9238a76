import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import {
  createWriter,
  ensureCondition,
  quoteKey,
  unlessMissing,
  type WriteDriver,
} from "@sluice/storage/plugin";
import { type Address, ensureGraphKey } from "./address.ts";
import { canonicalKey, type DriveItem, toObjectInfo } from "./drive-item.ts";
import type { GraphClient } from "./graph-client.ts";
import { openSpool, type Spool } from "./spool.ts";
import {
  conditionsOf,
  fragmentBytes,
  openUploadSession,
  type GraphUploadSession,
} from "./upload-session.ts";

/** Where writes go. */
export interface WriteRoute {
  readonly client: GraphClient;
  readonly address: Address;
  /** The object of a key as it is now. */
  readonly describe: (key: string, signal: AbortSignal | undefined) => Promise<ObjectInfo>;
}

/**
 * Opens a writer. Up to one fragment (5 MiB) is put with one request at `commit`. More goes to an
 * upload session as it comes, its last fragment at `commit`, which is what makes the file. A
 * session must know the size from the beginning: without `size` the bytes wait in a temporary file.
 */
export async function createGraphWriter(
  route: WriteRoute,
  key: string,
  options: WriteOptions,
): Promise<ObjectWriter> {
  const { size, signal } = options;
  const operation = `graph: write ${quoteKey(key)}`;
  signal?.throwIfAborted();
  ensureGraphKey(key, "graph: write");
  await ensureCurrent(route, key, options, operation);
  const openDriver = (ended: AbortSignal): WriteDriver =>
    createGraphDriver(route, key, { ...options, signal: ended }, operation);
  return createWriter(openDriver, { operation, size, signal });
}

/** `options.signal` aborts when the writer ends without a file. */
function createGraphDriver(
  route: WriteRoute,
  key: string,
  options: WriteOptions,
  operation: string,
): WriteDriver {
  const { client, address } = route;
  const { size, signal } = options;
  const fragment = Buffer.allocUnsafeSlow(Math.min(size ?? fragmentBytes, fragmentBytes));
  let filled = 0;
  let sent = 0;
  let session: GraphUploadSession | undefined;
  let spool: Spool | undefined;

  const openSession = (total: number): GraphUploadSession =>
    (session ??= openUploadSession({ client, address, key, total, options, operation }));
  const flush = async (): Promise<void> => {
    const bytes = fragment.subarray(0, filled);
    if (size === undefined) await locally(async () => (spool ??= await openSpool()).append(bytes));
    else await openSession(size).send(sent, bytes);
    sent += filled;
    filled = 0;
  };
  const locally = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (cause) {
      throw new SluiceError("no_space", `${operation}: the temporary file failed`, { cause });
    }
  };
  const putWhole = async (): Promise<DriveItem> => {
    const { headers, conflictBehavior } = conditionsOf(options);
    const target = address.toKey(key, "/content");
    const { body } = await client.ask({
      method: "PUT",
      target: `${target}?@microsoft.graph.conflictBehavior=${conflictBehavior}`,
      headers: { ...headers, "content-type": options.contentType ?? "application/octet-stream" },
      body: fragment.subarray(0, filled),
      expect: [200, 201],
      operation,
      signal,
    });
    return body as DriveItem;
  };
  /** Sends what waits in the temporary file, all but its last fragment, which is then in memory. */
  const sendSpooled = async (from: Spool): Promise<void> => {
    await flush();
    const total = sent;
    const upload = openSession(total);
    for (sent = 0; ; sent += filled) {
      filled = Math.min(fragment.byteLength, total - sent);
      await locally(() => from.read(sent, fragment.subarray(0, filled)));
      if (sent + filled === total) return;
      await upload.send(sent, fragment.subarray(0, filled));
    }
  };
  const infoOf = async (item: DriveItem): Promise<ObjectInfo> => {
    if (item.parentReference?.path === undefined) return route.describe(key, signal);
    const canonical = canonicalKey(item, key, address.driveId);
    if (canonical === undefined)
      throw new SluiceError("protocol", `${operation}: the service stored it under another name`);
    return toObjectInfo(canonical, item);
  };

  return {
    async append(chunk) {
      // a full fragment waits for the next byte: the last one belongs to commit
      for (let rest = chunk; rest.byteLength > 0;) {
        if (filled === fragment.byteLength) {
          await flush();
          signal?.throwIfAborted();
        }
        const part = rest.subarray(0, fragment.byteLength - filled);
        fragment.set(part, filled);
        filled += part.byteLength;
        rest = rest.subarray(part.byteLength);
      }
    },
    async publish() {
      if (spool) await sendSpooled(spool);
      // the service compares when a session begins, perhaps an hour ago, and not at all where no file is any more
      if (options.ifMatch !== undefined) await ensureCurrent(route, key, options, operation);
      if (!session) return infoOf(await putWhole());
      const item = await session.send(sent, fragment.subarray(0, filled));
      if (item === undefined)
        throw new SluiceError("interrupted", `${operation}: the service has all bytes and no file`);
      // a finished session cannot be cancelled
      session = undefined;
      return infoOf(item);
    },
    async release() {
      await session?.cancel();
      await spool?.close();
    },
  };
}

async function ensureCurrent(
  { describe }: WriteRoute,
  key: string,
  { ifMatch, ifAbsent, signal }: WriteOptions,
  operation: string,
): Promise<void> {
  if (!ifAbsent && ifMatch === undefined) return;
  ensureCondition(await unlessMissing(describe(key, signal)), { ifMatch, ifAbsent }, operation);
}
