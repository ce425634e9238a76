import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import { quoteKey, wrongSize } from "@sluice/storage/plugin";
import { type Address, ensureGraphKey } from "./address.ts";
import { canonicalKey, type DriveItem, toObjectInfo } from "./drive-item.ts";
import type { GraphClient } from "./graph-client.ts";
import { openSpool, type Spool } from "./spool.ts";
import {
  conditionsOf,
  fragmentBytes,
  openUploadSession,
  type UploadSession,
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
  const { client, address } = route;
  const { size, signal } = options;
  const who = `graph: write ${quoteKey(key)}`;
  signal?.throwIfAborted();
  ensureGraphKey(key, "graph: write");
  const ensureCurrent = (): Promise<void> => ensurePrecondition(route, key, options, who);
  await ensureCurrent();

  const fragment = Buffer.allocUnsafeSlow(Math.min(size ?? fragmentBytes, fragmentBytes));
  let filled = 0;
  let sent = 0;
  let session: UploadSession | undefined;
  let spool: Spool | undefined;
  let finished: Promise<unknown> | undefined;
  let released: Promise<void> | undefined;
  let underWay: Promise<unknown> = Promise.resolve();

  const openSession = (total: number): UploadSession =>
    (session ??= openUploadSession({ client, address, key, total, options, who }));
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
      throw new SluiceError("no_space", `${who}: the temporary file failed`, { cause });
    }
  };
  const ensureOpen = (operation: string): void => {
    signal?.throwIfAborted();
    if (finished) throw new TypeError(`${who}: ${operation} after the writer was finished`);
  };
  const letGo = async (): Promise<void> => {
    signal?.removeEventListener("abort", onAbort);
    await underWay.catch(() => {});
    await session?.cancel();
    await spool?.close();
  };
  const release = (): Promise<void> => (released ??= letGo());
  const abort = async (): Promise<void> => {
    finished ??= release();
    await finished.catch(() => {});
    await released?.catch(() => {});
  };
  /** Lets go after a failure; an abort is told at once, whatever the service takes to answer. */
  const giveUp = async (): Promise<void> => {
    finished ??= release();
    if (signal?.aborted) void release().catch(() => {});
    else await release().catch(() => {});
  };
  const onAbort = (): void => void abort();

  const putWhole = async (): Promise<DriveItem> => {
    const { headers, conflictBehavior } = conditionsOf(options);
    const target = address.toKey(key, "/content");
    const { body } = await client.ask({
      method: "PUT",
      target: `${target}?@microsoft.graph.conflictBehavior=${conflictBehavior}`,
      headers: { ...headers, "content-type": options.contentType ?? "application/octet-stream" },
      body: fragment.subarray(0, filled),
      expect: [200, 201],
      who,
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
  const publish = async (): Promise<ObjectInfo> => {
    if (size !== undefined && sent + filled !== size) throw wrongSize(who, sent + filled, size);
    if (spool) await sendSpooled(spool);
    // the service compares when a session begins, perhaps an hour ago, and not at all where no file is any more
    if (options.ifMatch !== undefined) await ensureCurrent();
    if (!session) return infoOf(await putWhole());
    const item = await session.send(sent, fragment.subarray(0, filled));
    if (item === undefined)
      throw new SluiceError("interrupted", `${who}: the service has all bytes and no file`);
    // a finished session cannot be cancelled
    session = undefined;
    return infoOf(item);
  };
  const infoOf = async (item: DriveItem): Promise<ObjectInfo> => {
    if (item.parentReference?.path === undefined) return route.describe(key, signal);
    const canonical = canonicalKey(item, key, address.driveId);
    if (canonical === undefined)
      throw new SluiceError("protocol", `${who}: the service stored it under another name`);
    return toObjectInfo(canonical, item);
  };
  const finish = async (): Promise<ObjectInfo> => {
    try {
      const work = publish();
      underWay = work;
      const info = await work;
      await release();
      return info;
    } catch (error) {
      await giveUp();
      throw error;
    }
  };

  signal?.addEventListener("abort", onAbort, { once: true });
  return {
    async write(chunk) {
      ensureOpen("write");
      const written = sent + filled + chunk.byteLength;
      if (size !== undefined && written > size) {
        await abort();
        throw wrongSize(who, written, size);
      }
      try {
        // a full fragment waits for the next byte: the last one belongs to commit
        for (let rest = chunk; rest.byteLength > 0;) {
          if (filled === fragment.byteLength) {
            underWay = flush();
            await underWay;
            if (finished) break;
          }
          const part = rest.subarray(0, fragment.byteLength - filled);
          fragment.set(part, filled);
          filled += part.byteLength;
          rest = rest.subarray(part.byteLength);
        }
        signal?.throwIfAborted();
      } catch (error) {
        await giveUp();
        throw error;
      }
    },
    async commit() {
      ensureOpen("commit");
      const finishing = finish();
      finished = finishing;
      return finishing;
    },
    abort,
    [Symbol.asyncDispose]: abort,
  };
}

async function ensurePrecondition(
  { describe }: WriteRoute,
  key: string,
  { ifMatch, ifAbsent, signal }: WriteOptions,
  who: string,
): Promise<void> {
  if (!ifAbsent && ifMatch === undefined) return;
  const current = await describe(key, signal).catch((error: unknown) => {
    if (SluiceError.is(error) && error.code === "not_found") return undefined;
    throw error;
  });
  if (ifAbsent && current)
    throw new SluiceError("precondition_failed", `${who}: it exists already`);
  if (ifMatch !== undefined && current?.etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${who}: it has changed`);
}
