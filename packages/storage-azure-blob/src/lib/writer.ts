import { createHash, getFips } from "node:crypto";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { ObjectWriter, Repeat, WriteOptions } from "@sluice/storage";
import {
  createPartDriver,
  createWriter,
  ensureWritable,
  formatIfMatch,
  asPrecondition,
  publishOnce,
  repeaterOf,
  type ServiceCall,
  toStrongEtag,
  unlessMissing,
  type WriteDriver,
} from "@sluice/storage/plugin";
import { beginCall, type BlobCall, type BlobRoot, callAzure } from "./blob-call.ts";
import { type BlobFacts, toObjectInfo } from "./object-info.ts";

const blockBytes = 8 * 1024 * 1024;
const maxBlocks = 50_000;
/** Longest time for one block. */
const uploadMs = 300_000;

/**
 * Opens a writer over blocks of 8 MiB, or larger ones if the declared size would need more than 50,000. An object of
 * one block is one Put Blob at `commit`; a larger one is staged block by block, and `commit` makes the list of blocks
 * the blob.
 */
export async function writeBlob(
  root: BlobRoot,
  key: string,
  options: WriteOptions,
): Promise<ObjectWriter> {
  const { size, signal } = options;
  const call = beginCall(root, "write", key, options);
  const { operation, blob } = call;
  await ensureWritable(options, operation, async () => {
    const facts = await callAzure({ operation, signal }, (abortSignal) =>
      blob.getProperties({ abortSignal }),
    );
    return { etag: toStrongEtag(facts.etag) };
  });
  const openDriver = (ended: AbortSignal): WriteDriver =>
    createBlobDriver(key, call, { ...options, signal: ended });
  return createWriter(openDriver, { operation, size, signal });
}

/** Stages full blocks and commits them. `options.signal` aborts when the writer ends without a blob. */
function createBlobDriver(
  key: string,
  { operation, blob }: BlobCall,
  options: WriteOptions,
): WriteDriver {
  const { size, contentType, ifMatch, ifAbsent, signal } = options;
  // where MD5 is forbidden, blobs have no digest
  const hash = getFips() === 0 ? createHash("md5") : undefined;
  const upload = { operation, signal, timeoutMs: uploadMs };
  const repeat = repeaterOf(options, signal);
  const ids: string[] = [];
  // writers of one blob at the same time must not replace each other's blocks
  const writerId = crypto.randomUUID();

  const stage = (block: Buffer): Promise<unknown> => {
    // all block ids of a blob must be equally long; 48 bytes, like the SDK's, so that its leftover blocks do no harm
    const id = Buffer.from(writerId + String(ids.length).padStart(12, "0")).toString("base64");
    ids.push(id);
    return repeat(() =>
      callAzure(upload, (abortSignal) =>
        blob.stageBlock(id, block, block.byteLength, { abortSignal }),
      ),
    );
  };
  const parts = createPartDriver(
    {
      async send(part) {
        await stage(toBuffer(part));
      },
      async publish(last, sent, written) {
        const md5 = hash?.digest();
        const conditions = definedMembers({
          ifMatch: formatIfMatch(ifMatch, operation),
          ifNoneMatch: ifAbsent ? "*" : undefined,
        });
        const blobHTTPHeaders = { blobContentType: contentType, blobContentMD5: md5 };
        const block = toBuffer(last);
        if (sent > 0) await stage(block);
        const facts = await publishBlob(
          { operation, blob },
          {
            repeat,
            upload,
            conditions,
            writerId,
            headers: definedMembers(blobHTTPHeaders),
            send: (given) =>
              sent > 0
                ? blob.commitBlockList(ids, given)
                : blob.upload(block, block.byteLength, given),
          },
        );
        return toObjectInfo(key, written, { ...facts, contentType }, md5);
      },
      release: async () => {},
    },
    { operation, size, partBytes: blockBytes, maxParts: maxBlocks },
  );
  return {
    ...parts,
    append(chunk) {
      hash?.update(chunk);
      return parts.append(chunk);
    },
  };
}

/** A `Buffer` over the same memory. Given any other view, the SDK would send the whole underlying buffer. */
export function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Metadata key with the id of the writer, by which a retry of a conditional write recognizes its own blob. */
const writerIdKey = "sluice_write";

interface PublishConditions {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
}

/** The request that makes a blob. */
interface Publication {
  readonly repeat: Repeat;
  readonly upload: ServiceCall;
  readonly conditions: PublishConditions;
  /** Only of this writer. */
  readonly writerId: string;
  readonly headers: object;
  readonly send: (options: {
    readonly conditions: PublishConditions;
    readonly metadata?: Record<string, string>;
    readonly blobHTTPHeaders: object;
    readonly abortSignal: AbortSignal;
  }) => Promise<BlobFacts>;
}

/** Makes a blob once, however often its response is lost, and gives its metadata from the service. */
export async function publishBlob(
  { operation, blob }: BlobCall,
  { repeat, upload, conditions, writerId, headers: blobHTTPHeaders, send }: Publication,
): Promise<BlobFacts> {
  const { ifMatch, ifNoneMatch } = conditions;
  const isConditional = ifMatch !== undefined || ifNoneMatch !== undefined;
  const metadata = { [writerIdKey]: writerId };
  const publish = async (): Promise<BlobFacts> => {
    const publication = callAzure(upload, (abortSignal) =>
      send({ conditions, blobHTTPHeaders, abortSignal, ...(isConditional && { metadata }) }),
    );
    const facts = await asPrecondition({ ifMatch }, operation, publication);
    // a response without an etag is not from Azure
    if (facts.etag) return facts;
    throw new SluiceError("unavailable", `${operation}: the response has no ETag`);
  };
  const find = async (): Promise<BlobFacts | undefined> => {
    const facts = callAzure(upload, (abortSignal) => blob.getProperties({ abortSignal }));
    const blobFacts = await unlessMissing(facts);
    return blobFacts?.metadata?.[writerIdKey] === writerId ? blobFacts : undefined;
  };
  return isConditional ? publishOnce(repeat, publish, find) : repeat(publish);
}
