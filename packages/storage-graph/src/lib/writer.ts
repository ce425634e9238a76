import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import {
  createPartDriver,
  createWriter,
  ensureWritable,
  isLost,
  repeaterOf,
  unlessMissing,
  type WriteDriver,
} from "@sluice/storage/plugin";
import { beginCall } from "./address.ts";
import { canonicalKey, type DriveItem, toObjectInfo } from "./drive-item.ts";
import { type FileCall, findFile } from "./find-file.ts";
import type { GraphRoute } from "./graph-client.ts";
import { QuickXor } from "./quick-xor.ts";
import { openSpool, type Spool } from "./spool.ts";
import {
  conditionsOf,
  fragmentBytes,
  type GraphUploadSession,
  openUploadSession,
} from "./upload-session.ts";

/**
 * Opens a writer. Up to one fragment (5 MiB) is put with one request at `commit`. More goes to an
 * upload session as it comes, its last fragment at `commit`, which is what makes the file. A
 * session must know the size from the beginning: without `size` the bytes wait in a temporary file.
 */
export async function writeFile(
  route: GraphRoute,
  key: string,
  options: WriteOptions,
): Promise<ObjectWriter> {
  const { size, signal } = options;
  const operation = beginCall("write", key, options);
  const call = { operation, signal };
  await ensureWritable(options, operation, () => describe(route, key, call));
  const openDriver = (ended: AbortSignal): WriteDriver =>
    createGraphDriver(route, key, { ...options, signal: ended }, operation);
  return createWriter(openDriver, { operation, size, signal });
}

/** `options.signal` aborts when the writer ends without a file. */
function createGraphDriver(
  route: GraphRoute,
  key: string,
  options: WriteOptions,
  operation: string,
): WriteDriver {
  const { client, address } = route;
  const { size, ifMatch, ifAbsent, signal } = options;
  const call = { operation, signal };
  const repeat = repeaterOf(options, signal);
  const hash = new QuickXor();
  let session: GraphUploadSession | undefined;
  let spool: Spool | undefined;

  const openSession = (total: number): GraphUploadSession =>
    (session ??= openUploadSession(route, { key, total, options, operation }, (since) =>
      findMade(total, since),
    ));
  const findMade = async (total: number, since: Date): Promise<DriveItem | undefined> => {
    const { info } = (await unlessMissing(findFile(route, key, call))) ?? {};
    const isNew = info?.size === total && info.lastModified && info.lastModified >= since;
    // another writer may have made one of that size
    return isNew && info.digests?.["quickXor"] === hash.digest() ? {} : undefined;
  };
  const locally = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (cause) {
      throw new SluiceError("no_space", `${operation}: the temporary file failed`, { cause });
    }
  };
  const putWhole = async (content: Uint8Array): Promise<DriveItem> => {
    const { headers, conflictBehavior } = conditionsOf(options);
    const target = address.toKey(key, "/content");
    const { body } = await client.ask({
      method: "PUT",
      target: `${target}?@microsoft.graph.conflictBehavior=${conflictBehavior}`,
      headers: { ...headers, "content-type": options.contentType ?? "application/octet-stream" },
      body: content,
      expect: [200, 201],
      ...call,
    });
    return body as DriveItem;
  };
  /** Under a condition a repetition could be refused by the file of the first try, so that only a refusal is repeated. */
  const publishWhole = async (content: Uint8Array): Promise<DriveItem> => {
    if (ifMatch === undefined && !ifAbsent) return repeat(() => putWhole(content));
    const outcome = await repeat(async () => {
      try {
        return { item: await putWhole(content) };
      } catch (error) {
        if (!isLost(error)) throw error;
        return { error };
      }
    });
    if ("error" in outcome) throw outcome.error;
    return outcome.item;
  };
  const sendSpooled = async (from: Spool, fragments: number, total: number): Promise<void> => {
    const upload = openSession(total);
    const fragment = Buffer.allocUnsafeSlow(fragmentBytes);
    for (let at = 0; at < fragments * fragmentBytes; at += fragmentBytes) {
      await locally(() => from.read(at, fragment));
      await upload.send(at, fragment);
    }
  };
  const infoOf = async (item: DriveItem): Promise<ObjectInfo> => {
    if (item.parentReference?.path === undefined) return repeat(() => describe(route, key, call));
    const canonical = canonicalKey(item, key, address.driveId);
    if (canonical === undefined)
      throw new SluiceError("protocol", `${operation}: the service stored it under another name`);
    return toObjectInfo(canonical, item);
  };

  return createPartDriver(
    {
      async send(fragment, sent) {
        hash.update(fragment);
        if (size === undefined)
          await locally(async () => (spool ??= await openSpool()).append(fragment));
        else await openSession(size).send(sent * fragmentBytes, fragment);
      },
      async publish(last, sent, written) {
        hash.update(last);
        if (spool) await sendSpooled(spool, sent, written);
        // the service compares when a session begins, perhaps an hour ago, and not at all where no file is any more
        await ensureWritable({ ifMatch }, operation, () =>
          repeat(() => describe(route, key, call)),
        );
        // only a session tells afterwards which writer made the file
        if (ifAbsent && written > 0) openSession(written);
        if (!session) return infoOf(await publishWhole(last));
        const item = await session.send(sent * fragmentBytes, last);
        if (item === undefined)
          throw new SluiceError(
            "interrupted",
            `${operation}: the service has all bytes and no file`,
          );
        // a finished session cannot be cancelled
        session = undefined;
        return infoOf(item);
      },
      async release() {
        await session?.cancel();
        await spool?.close();
      },
    },
    { operation, size, partBytes: fragmentBytes, maxParts: Infinity },
  );
}

async function describe(route: GraphRoute, key: string, call: FileCall): Promise<ObjectInfo> {
  return (await findFile(route, key, call)).info;
}
