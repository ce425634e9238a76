import { createHash, getFips } from "node:crypto";
import type { BlobRequestConditions } from "@azure/storage-blob";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import { quoteKey, wrongSize } from "@sluice/storage/plugin";
import { type Root, toBlobName } from "./container.ts";
import { ensureEtag, toObjectInfo } from "./object-info.ts";
import { request } from "./request.ts";

const leastBlockBytes = 8 * 1024 * 1024;
const mostBlocks = 50_000;
/** Longest time for one block. */
const uploadMs = 300_000;

/**
 * Opens a writer. Up to one block goes up as one Put Blob; more is staged block by block, one on its way while the next
 * is filled, and `commit` makes the list of blocks the blob. Two blocks wait in memory: 16 MiB, and more only for a
 * declared size beyond 390 GiB, since a blob has at most 50,000 blocks.
 */
export async function createBlobWriter(
  root: Root,
  key: string,
  { size, contentType, ifMatch, ifAbsent, signal }: WriteOptions,
): Promise<ObjectWriter> {
  signal?.throwIfAborted();
  const who = `azure-blob: write ${quoteKey(key)}`;
  const blob = root.container.getBlockBlobClient(toBlobName(root, key, "azure-blob: write"));
  if (ifMatch !== undefined) ensureEtag(ifMatch, who);
  const conditions: BlobRequestConditions = {
    ...(ifMatch !== undefined && { ifMatch: `"${ifMatch}"` }),
    ...(ifAbsent && { ifNoneMatch: "*" }),
  };
  // also now, so that nobody sends gigabytes for nothing
  if (ifAbsent || ifMatch !== undefined) await ensureCurrent();

  const blockBytes = Math.max(leastBlockBytes, Math.ceil((size ?? 0) / mostBlocks));
  // where MD5 is forbidden, blobs have no digest
  const hash = getFips() === 0 ? createHash("md5") : undefined;
  const ended = new AbortController();
  const upload = { who, signal: ended.signal, timeoutMs: uploadMs };
  const ids: string[] = [];
  // writers of one blob at the same time must not replace each other's blocks
  const writerId = crypto.randomUUID();
  const allocate = (): Buffer => Buffer.allocUnsafeSlow(Math.min(blockBytes, size ?? blockBytes));
  let block: Buffer | undefined;
  let spare: Buffer | undefined;
  let filled = 0;
  let written = 0;
  let staging = Promise.resolve();
  let finished = false;

  async function ensureCurrent(): Promise<void> {
    const current = await request({ who, signal }, (abortSignal) =>
      blob.getProperties({ abortSignal }),
    ).catch((error: unknown) => {
      if (SluiceError.is(error) && error.code === "not_found") return undefined;
      throw error;
    });
    if (ifAbsent ? current !== undefined : current?.etag !== conditions.ifMatch)
      throw conflict(who, ifAbsent);
  }
  const takeBlock = (): Buffer => {
    const bytes = (block ?? Buffer.alloc(0)).subarray(0, filled);
    block = undefined;
    filled = 0;
    return bytes;
  };
  const stage = async (): Promise<void> => {
    await staging;
    if (ids.length >= mostBlocks)
      throw new SluiceError(
        "too_large",
        `${who}: more than ${mostBlocks} blocks; declare the size`,
      );
    // ids of one blob have one length, in the SDK 48 bytes: blocks that another client left behind must not be in the way
    const id = Buffer.from(writerId + String(ids.length).padStart(12, "0")).toString("base64");
    ids.push(id);
    const full = takeBlock();
    staging = request(upload, async (abortSignal) => {
      await blob.stageBlock(id, full, full.byteLength, { abortSignal });
      spare ??= full.byteLength === blockBytes ? full : undefined;
    });
    // it is thrown where the writer is waited for next
    staging.catch(() => {});
  };
  const append = async (chunk: Uint8Array): Promise<void> => {
    for (let taken = 0; taken < chunk.byteLength;) {
      if (filled === blockBytes) await stage();
      block ??= spare ?? allocate();
      spare = undefined;
      const part = chunk.subarray(taken, taken + blockBytes - filled);
      block.set(part, filled);
      filled += part.byteLength;
      taken += part.byteLength;
    }
  };
  const publish = async (): Promise<ObjectInfo> => {
    const md5 = hash?.digest();
    const options = {
      conditions,
      blobHTTPHeaders: {
        ...(contentType !== undefined && { blobContentType: contentType }),
        ...(md5 && { blobContentMD5: md5 }),
      },
    };
    if (ids.length > 0) {
      await stage();
      await staging;
    }
    const whole = takeBlock();
    const answer = await request(upload, (abortSignal) =>
      ids.length > 0
        ? blob.commitBlockList(ids, { ...options, abortSignal })
        : blob.upload(whole, whole.byteLength, { ...options, abortSignal }),
    );
    return toObjectInfo(key, written, { ...answer, contentType }, md5);
  };
  const ensureOpen = (operation: string): void => {
    signal?.throwIfAborted();
    if (finished) throw new TypeError(`${who}: ${operation} after the writer was finished`);
  };
  const abort = async (
    reason: unknown = new SluiceError("interrupted", `${who}: the writer was aborted`),
  ): Promise<void> => {
    finish();
    ended.abort(reason);
    await staging.catch(() => {});
  };
  const onAbort = (): void => void abort(signal?.reason);
  const finish = (): void => {
    finished = true;
    block = undefined;
    spare = undefined;
    signal?.removeEventListener("abort", onAbort);
  };
  signal?.addEventListener("abort", onAbort, { once: true });

  return {
    async write(chunk) {
      ensureOpen("write");
      written += chunk.byteLength;
      try {
        if (size !== undefined && written > size) throw wrongSize(who, written, size);
        hash?.update(chunk);
        await append(chunk);
      } catch (error) {
        await abort();
        throw error;
      }
    },
    async commit() {
      ensureOpen("commit");
      finished = true;
      try {
        if (size !== undefined && size !== written) throw wrongSize(who, written, size);
        const info = await publish();
        finish();
        return info;
      } catch (error) {
        // a block may still be on its way
        await abort();
        const isRefused =
          SluiceError.is(error) && error.code === "not_found" && ifMatch !== undefined;
        throw isRefused ? conflict(who, ifAbsent) : error;
      }
    },
    abort,
    [Symbol.asyncDispose]: abort,
  };
}

function conflict(who: string, ifAbsent: boolean | undefined): SluiceError {
  const finding = ifAbsent ? "there is a blob already" : "the blob has changed";
  return new SluiceError("precondition_failed", `${who}: ${finding}`);
}
