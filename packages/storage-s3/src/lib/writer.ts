import { SluiceError } from "@sluice/core";
import type { ObjectInfo, ObjectWriter, WriteOptions } from "@sluice/storage";
import { quoteKey, wrongSize } from "@sluice/storage/plugin";
import type { Calls } from "./calls.ts";
import { toEtag } from "./object-info.ts";
import { describeObject } from "./open.ts";
import type { Root } from "./root.ts";
import { toSluiceError } from "./s3-error.ts";
import { createUpload, putObject, type Target, type Upload } from "./upload.ts";

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
  root: Root,
  key: string,
  options: WriteOptions,
): Promise<ObjectWriter> {
  const { size, signal } = options;
  const who = `s3: write ${quoteKey(key)}`;
  signal?.throwIfAborted();
  const target: Target = {
    ...options,
    who,
    bucket: root.bucket,
    name: root.toName(key, "write"),
  };
  // also now, so that nobody sends gigabytes for nothing
  await ensurePrecondition(calls, root, key, options, who);

  const partBytes = partBytesFor(size);
  const stop = new AbortController();
  let parts = createParts(Math.min(partBytes, size ?? partBytes));
  let upload: Upload | undefined;
  let sending: Promise<void> = Promise.resolve();
  let sent = 0;
  let written = 0;
  let finished: Promise<unknown> | undefined;
  let released: Promise<void> | undefined;

  const ensureOpen = (operation: string): void => {
    signal?.throwIfAborted();
    if (finished) throw new TypeError(`${who}: ${operation} after the writer was finished`);
  };
  const sendPart = async (): Promise<void> => {
    await sending;
    if (++sent > maxParts)
      throw new SluiceError(
        "too_large",
        `${who}: it has more than ${maxParts} parts of ${partBytes} bytes; declare the size`,
      );
    upload ??= createUpload(calls, target, stop.signal);
    sending = upload.send(sent, parts.take());
    // it is thrown where the writer waits for it next
    sending.catch(() => {});
  };
  const letGo = async (reason?: unknown): Promise<void> => {
    signal?.removeEventListener("abort", onAbort);
    stop.abort(reason ?? new Error("the writer was aborted"));
    await sending.catch(() => {});
    await upload?.abort();
    parts = createParts(0);
  };
  const release = (reason?: unknown): Promise<void> => (released ??= letGo(reason));
  const abort = async (reason?: unknown): Promise<void> => {
    finished ??= release(reason);
    await finished.catch(() => {});
    await released;
  };
  const onAbort = (): void => {
    // a commit that is under way ends, too
    stop.abort(signal?.reason);
    void abort(signal?.reason);
  };

  const publish = async (): Promise<string | undefined> => {
    if (upload === undefined) return putObject(calls, target, parts.take(), stop.signal);
    await sendPart();
    await sending;
    return upload.complete();
  };
  const finish = async (): Promise<ObjectInfo> => {
    try {
      if (size !== undefined && size !== written) throw wrongSize(who, written, size);
      const etag = toEtag(await publish());
      signal?.removeEventListener("abort", onAbort);
      const { contentType } = options;
      return {
        key,
        size: written,
        ...(etag !== undefined && { etag }),
        ...(contentType !== undefined && { contentType }),
      };
    } catch (error) {
      const releasing = release(error);
      // an abort is told at once, whatever the service takes to answer
      signal?.throwIfAborted();
      await releasing;
      throw toSluiceError(error, who);
    }
  };
  signal?.addEventListener("abort", onAbort, { once: true });

  return {
    async write(chunk) {
      ensureOpen("write");
      written += chunk.byteLength;
      try {
        if (size !== undefined && written > size) throw wrongSize(who, written, size);
        let rest = chunk;
        while (rest.byteLength > 0) {
          // a full part waits until there is more: it may be the only one
          if (parts.isFull()) await sendPart();
          rest = parts.add(rest);
        }
      } catch (error) {
        signal?.throwIfAborted();
        await abort(error);
        throw toSluiceError(error, who);
      }
    },
    async commit() {
      ensureOpen("commit");
      const finishing = finish();
      finished = finishing;
      return finishing;
    },
    abort,
    [Symbol.asyncDispose]: () => abort(),
  };
}

/** Two buffers that take turns: one is filled while the other is sent. */
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
  root: Root,
  key: string,
  { ifMatch, ifAbsent, signal }: WriteOptions,
  who: string,
): Promise<void> {
  if (!ifAbsent && ifMatch === undefined) return;
  const etag = await describeObject(calls, root, key, { operation: "write", signal }).then(
    (info) => info.etag ?? "",
    (error: unknown) => {
      if (SluiceError.is(error) && error.code === "not_found") return undefined;
      throw error;
    },
  );
  if (ifAbsent && etag !== undefined)
    throw new SluiceError("precondition_failed", `${who}: it exists already`);
  if (ifMatch !== undefined && etag !== ifMatch)
    throw new SluiceError("precondition_failed", `${who}: the object has changed`);
}
