import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import {
  createPartDriver,
  createWriter,
  ensureWritable,
  type WriteDriver,
} from "@sluice/storage/plugin";
import { beginCall } from "./address.ts";
import { canonicalKey, type DriveItem, toObjectInfo } from "./drive-item.ts";
import { type FileCall, findFile } from "./find-file.ts";
import type { GraphRoute } from "./graph-client.ts";
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
export async function createGraphWriter(
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
  const { size, ifMatch, signal } = options;
  const call = { operation, signal };
  let session: GraphUploadSession | undefined;
  let spool: Spool | undefined;

  const openSession = (total: number): GraphUploadSession =>
    (session ??= openUploadSession(route, { key, total, options, operation }));
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
  const sendSpooled = async (from: Spool, fragments: number, total: number): Promise<void> => {
    const upload = openSession(total);
    const fragment = Buffer.allocUnsafeSlow(fragmentBytes);
    for (let at = 0; at < fragments * fragmentBytes; at += fragmentBytes) {
      await locally(() => from.read(at, fragment));
      await upload.send(at, fragment);
    }
  };
  const infoOf = async (item: DriveItem): Promise<ObjectInfo> => {
    if (item.parentReference?.path === undefined) return describe(route, key, call);
    const canonical = canonicalKey(item, key, address.driveId);
    if (canonical === undefined)
      throw new SluiceError("protocol", `${operation}: the service stored it under another name`);
    return toObjectInfo(canonical, item);
  };

  return createPartDriver(
    {
      async send(fragment, sent) {
        if (size === undefined)
          await locally(async () => (spool ??= await openSpool()).append(fragment));
        else await openSession(size).send(sent * fragmentBytes, fragment);
      },
      async publish(last, sent, written) {
        if (spool) await sendSpooled(spool, sent, written);
        // the service compares when a session begins, perhaps an hour ago, and not at all where no file is any more
        await ensureWritable({ ifMatch }, operation, () => describe(route, key, call));
        if (!session) return infoOf(await putWhole(last));
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
