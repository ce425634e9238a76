import { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type { BlobDownloadResponseParsed } from "@azure/storage-blob";
import { type ByteFlow, type ByteRange, SluiceError } from "@sluice/core";
import { createFlowBody, definedMembers } from "@sluice/core/internal";
import { flowOfReadable } from "@sluice/core/node";
import type { OpenedObject, OpenOptions } from "@sluice/storage";
import {
  createBytesBody,
  ensureCondition,
  formatIfMatch,
  readExtent,
  resolveRange,
} from "@sluice/storage/plugin";
import { statusOf, toInterrupted, toSluiceError } from "./azure-error.ts";
import { beginCall, type BlobRoot, callAzure } from "./blob-call.ts";
import { ensureReadable, toObjectInfo } from "./object-info.ts";

/** Opens a blob with one GET, whose headers describe the bytes that follow them. */
export async function openBlob(
  root: BlobRoot,
  key: string,
  options: OpenOptions,
): Promise<OpenedObject> {
  const { range, ifMatch, signal } = options;
  const { operation, blob } = beginCall(root, "open", key, options);
  const conditions = definedMembers({ ifMatch: formatIfMatch(ifMatch, operation) });
  const [offset, count] = toOffsetAndCount(range);
  const answer = await callAzure({ operation, signal }, async (abortSignal) => {
    try {
      const download = await blob.download(offset, count, {
        abortSignal,
        maxRetryRequests: 0,
        conditions,
      });
      // after an abort the stream is not read, and an error without a listener ends the process
      download.readableStreamBody?.on("error", () => {});
      return download;
    } catch (error) {
      throw statusOf(error) === 416 ? await withSize(error, operation, blob, abortSignal) : error;
    }
  });
  const stream = answer.readableStreamBody;
  if (stream === undefined)
    throw new SluiceError("internal", `${operation}: there is no Node stream`);
  // of the two types that the SDK gives, this one is what it makes
  const body = stream as Readable;
  try {
    ensureReadable(answer, operation);
    const size = checkAnswer(answer, offset, count, operation);
    // with a range, Content-MD5 is the digest of the range; x-ms-blob-content-md5 is that of the blob
    const md5 = range ? answer.blobContentMD5 : answer.contentMD5;
    const info = toObjectInfo(key, size, answer, md5);
    // a cache on the way may ignore the condition
    ensureCondition(info, { ifMatch }, operation);
    const resolved = range && resolveRange(range, size, operation);
    if (resolved && resolved.start === resolved.end) {
      body.destroy();
      return { info, range: resolved, body: createBytesBody(new Uint8Array(), signal) };
    }
    return {
      info,
      ...definedMembers({ range: resolved }),
      body: createFlowBody(flowOfAnswer(answer, body, operation, signal), signal),
    };
  } catch (error) {
    body.destroy();
    throw error;
  }
}

/**
 * The bytes of a response. The SDK wraps Node's response in a stream that only counts, so the response is taken from
 * under it.
 */
function flowOfAnswer(
  { _response }: BlobDownloadResponseParsed,
  body: Readable,
  operation: string,
  signal: AbortSignal | undefined,
): ByteFlow {
  const { readableStreamBody: inner } = _response as { readableStreamBody?: unknown };
  return flowOfReadable(body, {
    operation,
    signal,
    message: inner instanceof IncomingMessage ? inner : undefined,
    toError: (cause) => toInterrupted(cause, operation),
  });
}

/**
 * What to ask for. An empty range cannot be asked for over HTTP, and to the SDK a count of 0 means everything: one
 * byte tells whether the start is within the blob.
 */
function toOffsetAndCount(range: ByteRange | undefined): [offset: number, count?: number] {
  if (range === undefined) return [0];
  const { start, end } = range;
  return end === undefined ? [start] : [start, Math.max(end - start, 1)];
}

/**
 * Checks that the response brings the bytes that were asked for, and gives the size of the blob. Throws `corrupt` for
 * others.
 */
function checkAnswer(
  answer: BlobDownloadResponseParsed,
  offset: number,
  count: number | undefined,
  operation: string,
): number {
  const { contentLength = 0, contentRange, contentType, etag, _response } = answer;
  const total = Number(/^bytes .*\/(\d+)$/.exec(contentRange ?? "")?.[1] ?? NaN);
  // an emulator sends an empty 206, while the service refuses the range
  if (contentLength === 0 && total <= offset)
    throw new SluiceError("range_not_satisfiable", `${operation}: ${offset} is beyond the end`, {
      size: total,
    });
  // a range from 0 without an end is the whole blob: the SDK then sends no Range
  const range =
    offset === 0 && count === undefined
      ? undefined
      : definedMembers({ start: offset, end: count === undefined ? undefined : offset + count });
  const { size, sent } = readExtent(
    {
      status: _response.status,
      contentLength: answer.contentLength,
      contentRange,
      contentType,
      etag,
    },
    { operation, range },
  );
  // `readExtent` takes a 200 for the whole blob; Azure never answers a range so
  if (sent.start !== offset || sent.end !== Math.min(range?.end ?? size, size))
    throw new SluiceError(
      "corrupt",
      `${operation}: the service sent another range than was asked for`,
    );
  return size;
}

/**
 * The 416 as an error with the blob's size. Azure sends the size in a header; if something on the way dropped it, the
 * blob is asked.
 */
async function withSize(
  error: unknown,
  operation: string,
  blob: { getProperties(options: object): Promise<{ contentLength?: number }> },
  abortSignal: AbortSignal,
): Promise<SluiceError> {
  const refusal = toSluiceError(error, operation);
  if (refusal.size !== undefined) return refusal;
  const { contentLength: size } = await blob.getProperties({ abortSignal });
  const { code, message, cause } = refusal;
  return new SluiceError(code, message, definedMembers({ cause, size }));
}
