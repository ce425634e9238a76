import { type FileHandle, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
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

/**
 * Microsoft's QuickXorHash of bytes that come in order. Not cryptographic. Each byte is xored into 160 bits, 11 bits
 * further on than the one before; the length is xored into the last 64 bits.
 */
class QuickXor {
  // bytes whose places are the same, each 160th, meet each other first
  readonly #columns = new Uint8Array(160);
  #length = 0;

  update(bytes: Uint8Array): void {
    const columns = this.#columns;
    let column = this.#length % 160;
    for (let at = 0; at < bytes.length; at++) {
      columns[column]! ^= bytes[at]!;
      column = column === 159 ? 0 : column + 1;
    }
    this.#length += bytes.length;
  }

  /** In base64, as Graph names it. */
  digest(): string {
    const hash = Buffer.alloc(20);
    for (const [column, byte] of this.#columns.entries()) {
      const place = (column * 11) % 160;
      const moved = byte << (place % 8);
      hash[place >> 3]! ^= moved & 255;
      hash[((place >> 3) + 1) % 20]! ^= moved >> 8;
    }
    const end = Buffer.alloc(8);
    end.writeBigUInt64LE(BigInt(this.#length));
    for (const [at, byte] of end.entries()) hash[12 + at]! ^= byte;
    return hash.toString("base64");
  }
}

/** Bytes that wait on disk until their number is known. */
interface Spool {
  append(bytes: Uint8Array): Promise<void>;
  /** Fills `into` with the bytes from `position` on; they must have been appended. */
  read(position: number, into: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

/** Opens an empty spool in the system's folder for temporary files. */
async function openSpool(): Promise<Spool> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-graph-"));
  let file: FileHandle;
  try {
    file = await openHandle(join(folder, "upload"), "wx+", 0o600);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  let length = 0;
  return {
    async append(bytes) {
      for (let at = 0; at < bytes.byteLength;) {
        const { bytesWritten } = await file.write(bytes, at, bytes.byteLength - at, length);
        at += bytesWritten;
        length += bytesWritten;
      }
    },
    async read(position, into) {
      for (let at = 0; at < into.byteLength;) {
        const { bytesRead } = await file.read(into, at, into.byteLength - at, position + at);
        if (bytesRead === 0)
          throw new Error("the temporary file is shorter than the written bytes");
        at += bytesRead;
      }
    },
    async close() {
      await file.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
