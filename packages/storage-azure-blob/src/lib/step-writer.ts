import { randomBytes } from "node:crypto";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { StepOptions, StepWriter } from "@sluice/storage";
import {
  createStepPartDriver,
  createStepWriter,
  formatIfMatch,
  repeaterOf,
  type StepDriver,
  toPartGrid,
  toStrongEtag,
  unlessMissing,
} from "@sluice/storage/plugin";
import { beginCall, type BlobCall, type BlobRoot, callAzure } from "./blob-call.ts";
import { toObjectInfo } from "./object-info.ts";
import { publishBlob, toBuffer } from "./writer.ts";

/** Blocks of 8 MiB at first, as many as a blob takes. */
const grid = toPartGrid(8 * 1024 * 1024, 50_000);
/** Longest time for one block. */
const uploadMs = 300_000;

/** What the id of a stepped write encodes. */
interface StepId {
  /** Prefix of the ids of the blocks. */
  readonly uploadId: string;
  /** Etag of the blob that the new one replaces; of two writers only one finds that one at its commit. */
  readonly replaced: string | undefined;
  /** Kept in the id, because Azure takes the type only with the block list, at commit. */
  readonly type: string | undefined;
}

/**
 * Opens a writer of one step over staged blocks that no block list names yet. The service drops them after a week; then
 * they look as if they had never been sent.
 */
export async function writeBlobInSteps(
  root: BlobRoot,
  key: string,
  options: StepOptions,
): Promise<StepWriter> {
  const { contentType, signal } = options;
  const call = beginCall(root, "write in steps", key, options);
  const { operation, blob } = call;
  const begin = (): Promise<StepId> => newStepId(call, contentType, signal);
  const id = options.id ?? formatId(await repeaterOf(options, signal)(begin));
  const { uploadId, replaced, type } = parseId(id, operation);
  const ifMatch = formatIfMatch(replaced, operation);
  const keptBlocks = options.id === undefined ? [] : await findBlocks(call, uploadId, signal);
  // the stamp makes this writer's block ids unique, so that its block list cannot name another writer's block at the
  // same place
  const openedAt = Date.now().toString(36).padStart(8, "0").slice(-8);
  const stamp = openedAt + randomBytes(3).toString("base64url");

  const openDriver = (ended: AbortSignal): StepDriver => {
    const upload = { operation, signal: ended, timeoutMs: uploadMs };
    const repeat = repeaterOf(options, ended);
    const blocks = [...keptBlocks];
    const send = async (number: number, part: Uint8Array): Promise<void> => {
      const name = nameOf(uploadId, number, stamp);
      const block = toBuffer(part);
      await repeat(() =>
        callAzure(upload, (abortSignal) =>
          blob.stageBlock(name, block, block.byteLength, { abortSignal }),
        ),
      );
      blocks.push(name);
    };
    return createStepPartDriver(
      {
        send,
        async publish(last, count) {
          if (last.byteLength > 0) await send(count, last);
          const facts = await publishBlob(call, {
            repeat,
            upload,
            writerId: uploadId + stamp,
            conditions: ifMatch === undefined ? { ifNoneMatch: "*" } : { ifMatch },
            headers: definedMembers({ blobContentType: type }),
            send: (given) => blob.commitBlockList(blocks, given),
          });
          const size = grid.startOf(count) + last.byteLength;
          return toObjectInfo(key, size, { ...facts, contentType: type }, undefined);
        },
        discard: () => dropBlocks(call),
      },
      { operation, grid, count: keptBlocks.length },
    );
  };
  const offset = grid.startOf(keptBlocks.length);
  return createStepWriter(openDriver, { operation, id, offset, signal });
}

async function newStepId(
  { operation, blob }: BlobCall,
  type: string | undefined,
  signal: AbortSignal | undefined,
): Promise<StepId> {
  const facts = await unlessMissing(
    callAzure({ operation, signal }, (abortSignal) => blob.getProperties({ abortSignal })),
  );
  return { uploadId: crypto.randomUUID(), replaced: toStrongEtag(facts?.etag), type };
}

function formatId({ uploadId, replaced = "", type = "" }: StepId): string {
  return [uploadId, replaced, type].map(encodeURIComponent).join(":");
}

function parseId(id: string, operation: string): StepId {
  const [, uploadId, ...texts] =
    /^([0-9a-f-]{36}):([\x21-\x39\x3b-\x7e]{0,60}):([\x21-\x39\x3b-\x7e]{0,900})$/.exec(id) ?? [];
  try {
    const [replaced, type] = texts.map((text) => decodeURIComponent(text) || undefined);
    if (uploadId !== undefined) return { uploadId, replaced, type };
  } catch {
    // it is not ours
  }
  throw new SluiceError("invalid_argument", `${operation}: the id is not one of this backend`);
}

/** All ids of a blob must be of one length, which is 48 bytes here as in the SDK. */
function nameOf(uploadId: string, number: number, stamp: string): string {
  const text = withoutDashes(uploadId) + number.toString(36).padStart(4, "0") + stamp;
  return Buffer.from(text).toString("base64");
}

function withoutDashes(uploadId: string): string {
  return uploadId.replaceAll("-", "");
}

/**
 * Ids of the staged blocks, from the first up to the first gap. If two writers staged the same place, the newest one's.
 */
async function findBlocks(
  { operation, blob }: BlobCall,
  uploadId: string,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const listing = callAzure({ operation, signal }, (abortSignal) =>
    blob.getBlockList("uncommitted", { abortSignal }),
  );
  const begin = withoutDashes(uploadId);
  const newest = new Map<number, string>();
  for (const { name, size } of (await unlessMissing(listing))?.uncommittedBlocks ?? []) {
    const text = Buffer.from(name, "base64").toString("latin1");
    const number = Number.parseInt(text.slice(32, 36), 36);
    if (!text.startsWith(begin) || size !== grid.sizeOf(number)) continue;
    const before = newest.get(number);
    if (before === undefined || Buffer.from(before, "base64").toString("latin1") < text)
      newest.set(number, name);
  }
  const blocks: string[] = [];
  for (let name = newest.get(0); name !== undefined; name = newest.get(blocks.length))
    blocks.push(name);
  return blocks;
}

/**
 * Before their week ends, staged blocks disappear only when their blob is written. So write an empty blob, hidden by a
 * folder mark, and delete it. If a blob exists, its blocks are left to expire.
 */
async function dropBlocks({ operation, blob }: BlobCall): Promise<void> {
  const writeEmpty = (conditions: { readonly ifNoneMatch?: string }): Promise<string | undefined> =>
    callAzure({ operation }, async (abortSignal) => {
      const metadata = { hdi_isfolder: "true" };
      return (await blob.upload("", 0, { metadata, conditions, abortSignal })).etag;
    });
  const exists = async (): Promise<boolean> => {
    const facts = callAzure({ operation }, (abortSignal) => blob.getProperties({ abortSignal }));
    return (await unlessMissing(facts)) !== undefined;
  };
  const ifMatch = await writeEmpty({ ifNoneMatch: "*" }).catch(async (error: unknown) => {
    if (!SluiceError.is(error) || error.code !== "precondition_failed") throw error;
    // Azurite treats staged blocks as an existing blob
    return (await exists()) ? undefined : writeEmpty({});
  });
  if (ifMatch === undefined) return;
  const removal = callAzure({ operation }, (abortSignal) =>
    blob.delete({ conditions: { ifMatch }, abortSignal }),
  );
  await unlessMissing(removal);
}
