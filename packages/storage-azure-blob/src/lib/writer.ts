import { createHash, getFips } from "node:crypto";
import type { BlockBlobClient, BlockBlobCommitBlockListOptions } from "@azure/storage-blob";
import { definedMembers, SluiceError } from "@sluice/core";
import type { ObjectWriter, WriteOptions } from "@sluice/storage";
import {
  createWriter,
  ensureCondition,
  quoteKey,
  unlessMissing,
  type WriteDriver,
} from "@sluice/storage/plugin";
import { type BlobRoot, toBlobName } from "./container.ts";
import { type BlobFacts, ensureEtag, toEtag, toObjectInfo } from "./object-info.ts";
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
  root: BlobRoot,
  key: string,
  { size, contentType, ifMatch, ifAbsent, signal }: WriteOptions,
): Promise<ObjectWriter> {
  signal?.throwIfAborted();
  const operation = `azure-blob: write ${quoteKey(key)}`;
  const blob = root.container.getBlockBlobClient(toBlobName(root, key, "azure-blob: write"));
  if (ifMatch !== undefined) ensureEtag(ifMatch, operation);
  // also now: a stale condition costs no transfer
  if (ifAbsent || ifMatch !== undefined) {
    const describing = request({ operation, signal }, (abortSignal) =>
      blob.getProperties({ abortSignal }),
    );
    const current = await unlessMissing(describing);
    ensureCondition(current && { etag: toEtag(current.etag) }, { ifMatch, ifAbsent }, operation);
  }
  const openDriver = (ended: AbortSignal): WriteDriver =>
    createBlobDriver(blob, { key, operation, size, contentType, ifMatch, ifAbsent, signal: ended });
  return createWriter(openDriver, { operation, size, signal });
}

/** Where the bytes of a blob go, and under which conditions. */
interface BlobTarget {
  readonly key: string;
  readonly operation: string;
  readonly size: number | undefined;
  readonly contentType: string | undefined;
  readonly ifMatch: string | undefined;
  readonly ifAbsent: boolean | undefined;
  /** Aborts when the writer ends without a blob. */
  readonly signal: AbortSignal;
}

function createBlobDriver(blob: BlockBlobClient, target: BlobTarget): WriteDriver {
  const { key, operation, size, contentType, ifMatch, ifAbsent, signal } = target;
  const blockBytes = Math.max(leastBlockBytes, Math.ceil((size ?? 0) / mostBlocks));
  // where MD5 is forbidden, blobs have no digest
  const hash = getFips() === 0 ? createHash("md5") : undefined;
  const upload = { operation, signal, timeoutMs: uploadMs };
  const ids: string[] = [];
  // writers of one blob at the same time must not replace each other's blocks
  const writerId = crypto.randomUUID();
  const allocate = (): Buffer => Buffer.allocUnsafeSlow(Math.min(blockBytes, size ?? blockBytes));
  let block: Buffer | undefined;
  let spare: Buffer | undefined;
  let filled = 0;
  let staging = Promise.resolve();

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
        `${operation}: more than ${mostBlocks} blocks; declare the size`,
      );
    // ids of one blob have one length, in the SDK 48 bytes: blocks that another client left behind must not be in the way
    const id = Buffer.from(writerId + String(ids.length).padStart(12, "0")).toString("base64");
    ids.push(id);
    const full = takeBlock();
    staging = request(upload, async (abortSignal) => {
      await blob.stageBlock(id, full, full.byteLength, { abortSignal });
      spare ??= full.byteLength === blockBytes ? full : undefined;
    });
    // the next step that waits for it throws the error
    staging.catch(() => {});
  };
  const commit = async (options: BlockBlobCommitBlockListOptions): Promise<BlobFacts> => {
    if (ids.length > 0) {
      await stage();
      await staging;
    }
    const whole = takeBlock();
    return request(upload, (abortSignal) =>
      ids.length > 0
        ? blob.commitBlockList(ids, { ...options, abortSignal })
        : blob.upload(whole, whole.byteLength, { ...options, abortSignal }),
    );
  };

  return {
    async append(chunk) {
      hash?.update(chunk);
      for (let taken = 0; taken < chunk.byteLength;) {
        if (filled === blockBytes) await stage();
        block ??= spare ?? allocate();
        spare = undefined;
        const part = chunk.subarray(taken, taken + blockBytes - filled);
        block.set(part, filled);
        filled += part.byteLength;
        taken += part.byteLength;
      }
    },
    async publish(written) {
      const md5 = hash?.digest();
      const conditions = definedMembers({
        ifMatch: ifMatch === undefined ? undefined : `"${ifMatch}"`,
        ifNoneMatch: ifAbsent ? "*" : undefined,
      });
      const blobHTTPHeaders = definedMembers({
        blobContentType: contentType,
        blobContentMD5: md5,
      });
      const committing = commit({ conditions, blobHTTPHeaders });
      // where nothing is, there is not the version that was asked for
      const answer = ifMatch === undefined ? await committing : await unlessMissing(committing);
      if (answer === undefined)
        throw new SluiceError("precondition_failed", `${operation}: the blob has changed`);
      return toObjectInfo(key, written, { ...answer, contentType }, md5);
    },
    async release() {
      await staging.catch(() => {});
      block = undefined;
      spare = undefined;
    },
  };
}
