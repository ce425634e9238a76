import { definedMembers, SluiceError } from "@sluice/core";
import type { ObjectWriter, WriteOptions } from "@sluice/storage";
import {
  createWriter,
  ensureCondition,
  quoteKey,
  unlessMissing,
  type WriteDriver,
} from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import { toEtag } from "./object-info.ts";
import { describeObject } from "./open.ts";
import type { S3Root } from "./root.ts";
import { toSluiceError } from "./s3-error.ts";
import { createUpload, putObject, type S3UploadTarget, type MultipartUpload } from "./upload.ts";

const mebibyte = 1024 * 1024;
const defaultPartBytes = 8 * mebibyte;
/** Most parts of one object in S3. */
const maxParts = 10_000;

/**
 * Opens a writer. It gathers a part of 8 MiB, or as much as 10,000 parts need for the declared size,
 * and gathers the next while that is on its way: two parts are all the memory it takes. What fits into
 * one part is a single PUT at `commit`, larger objects are a multipart upload that `commit` completes.
 */
export async function createS3Writer(
  calls: Calls,
  root: S3Root,
  key: string,
  options: WriteOptions,
): Promise<ObjectWriter> {
  const { size, contentType, signal } = options;
  const operation = `s3: write ${quoteKey(key)}`;
  signal?.throwIfAborted();
  const target: S3UploadTarget = {
    ...options,
    operation,
    bucket: root.bucket,
    name: root.toName(key, "write"),
  };
  // also now: a stale condition costs no transfer
  await ensurePrecondition(calls, root, key, options);

  const partBytes = partBytesFor(size);
  const openDriver = (ended: AbortSignal): WriteDriver => {
    let parts = createParts(Math.min(partBytes, size ?? partBytes));
    let upload: MultipartUpload | undefined;
    let sending: Promise<void> = Promise.resolve();
    let sent = 0;

    const sendPart = async (): Promise<void> => {
      await sending;
      if (++sent > maxParts)
        throw new SluiceError(
          "too_large",
          `${operation}: it has more than ${maxParts} parts of ${partBytes} bytes; declare the size`,
        );
      upload ??= createUpload(calls, target, ended);
      sending = upload.send(sent, parts.take());
      // the next step that waits for it throws the error
      sending.catch(() => {});
    };
    const complete = async (started: MultipartUpload): Promise<string | undefined> => {
      await sendPart();
      await sending;
      const etag = await started.complete();
      // a complete upload has nothing to abort
      upload = undefined;
      return etag;
    };

    return {
      async append(chunk) {
        let rest = chunk;
        while (rest.byteLength > 0) {
          // a full part waits until there is more: it may be the only one
          if (parts.isFull()) await sendPart();
          rest = parts.add(rest);
        }
      },
      async publish(written) {
        const etag = upload
          ? await complete(upload)
          : await putObject(calls, target, parts.take(), ended);
        return definedMembers({ key, size: written, etag: toEtag(etag), contentType });
      },
      async release() {
        await sending.catch(() => {});
        await upload?.abort();
        parts = createParts(0);
      },
    };
  };
  return createWriter(openDriver, { operation, size, signal, toError: toSluiceError });
}

/** Two buffers: one is filled while the other is sent. */
function createParts(bytes: number): {
  isFull(): boolean;
  /** Takes in what fits and gives back the rest. */
  add(chunk: Uint8Array): Uint8Array;
  /** What is gathered. It stays as it is until the next but one is taken. */
  take(): Uint8Array;
} {
  let filling: Uint8Array | undefined;
  let resting: Uint8Array | undefined;
  let filled = 0;
  return {
    isFull: () => filled === bytes,
    add(chunk) {
      filling ??= Buffer.allocUnsafeSlow(bytes);
      const taken = chunk.subarray(0, bytes - filled);
      filling.set(taken, filled);
      filled += taken.byteLength;
      return chunk.subarray(taken.byteLength);
    },
    take() {
      const part = filling?.subarray(0, filled) ?? new Uint8Array();
      [filling, resting] = [resting, filling];
      filled = 0;
      return part;
    },
  };
}

function partBytesFor(size = 0): number {
  const least = Math.ceil(size / maxParts / mebibyte) * mebibyte;
  return Math.max(defaultPartBytes, least);
}

async function ensurePrecondition(
  calls: Calls,
  root: S3Root,
  key: string,
  { ifMatch, ifAbsent, signal }: WriteOptions,
): Promise<void> {
  if (!ifAbsent && ifMatch === undefined) return;
  const describing = describeObject(calls, root, key, { method: "write", signal });
  ensureCondition(
    await unlessMissing(describing),
    { ifMatch, ifAbsent },
    `s3: write ${quoteKey(key)}`,
  );
}
