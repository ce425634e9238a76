import {
  type ByteRange,
  definedMembers,
  formatRange,
  parseContentRange,
  SluiceError,
} from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { createBody, resolveRange, holdLastChunk } from "@sluice/storage/plugin";
import type { Dispatcher } from "undici";
import type { Address } from "./address.ts";
import { type DriveFile, selectItem, toObjectInfo } from "./drive-item.ts";
import { type GraphClient, readAnswer } from "./graph-client.ts";
import { createCause, textOf, toSluiceError } from "./graph-error.ts";

const chunkBytes = 256 * 1024;

/** Statuses of a download URL that died early: they say nothing about the user's permissions. */
const staleStatuses = new Set([401, 403, 404, 410]);

/** Where downloads go. */
export interface DownloadRoute {
  readonly client: GraphClient;
  readonly address: Address;
}

/** One download of a file that was found. */
export interface DownloadOrder {
  readonly range: ByteRange | undefined;
  /** How messages start. */
  readonly operation: string;
  readonly signal: AbortSignal | undefined;
}

/** An open download. */
export interface Download {
  /** Bytes of the whole file as the download tells them: `driveItem.size` may lag behind. */
  readonly size: number | undefined;
  readonly range: Required<ByteRange> | undefined;
  readonly body: ReadableStream<Uint8Array>;
}

/**
 * A fresh download URL: short-lived, anonymous, opaque. It is taken from the redirect of
 * `/content`, always by id: the annotation of the item disappears with `$select`.
 */
export async function mintUrl(
  { client, address }: DownloadRoute,
  id: string,
  { operation, signal }: Omit<DownloadOrder, "range">,
): Promise<string> {
  const target = address.toItem(id, "/content");
  const { headers } = await client.ask({ target, expect: [302], operation, signal });
  const url = textOf(headers["location"]);
  if (url === undefined)
    throw new SluiceError("protocol", `${operation}: the service gave no download URL`);
  return url;
}

/**
 * Opens the bytes of a file. Its URL names the item and not a version, so the last chunk waits
 * until Graph says that the content is still the one that was described.
 */
export async function openDownload(
  route: DownloadRoute,
  file: DriveFile,
  order: DownloadOrder,
): Promise<Download> {
  const { range, operation, signal } = order;
  const response = await request(route, file, order);
  const { statusCode, headers } = response;
  try {
    if ((textOf(headers["content-encoding"]) ?? "identity") !== "identity")
      throw new SluiceError(
        "protocol",
        `${operation}: the bytes came encoded, which was not asked for`,
      );
    const given = parseContentRange(textOf(headers["content-range"]));
    const length = lengthOf(headers);
    const size = statusCode === 200 ? (length ?? file.info.size) : (given?.size ?? file.info.size);
    if (statusCode === 416)
      throw new SluiceError("range_not_satisfiable", `${operation}: the range is beyond the end`, {
        ...definedMembers({ size }),
      });
    if (statusCode === 206 && (size === undefined || given?.range?.start !== range?.start))
      throw new SluiceError("protocol", `${operation}: another range came than was asked for`);
    // without any length a clean end could be a truncation
    if (size === undefined)
      throw new SluiceError(
        "protocol",
        `${operation}: the service does not say how many bytes will come`,
      );
    const resolved = range && resolveRange(range, size, operation);
    const { start, end } = resolved ?? { start: 0, end: size };
    const bytes = bodyOf(response.body, {
      // a service may ignore the range, and then everything before it comes, too
      skip: statusCode === 200 ? start : 0,
      length: end - start,
      isCut: resolved !== undefined,
      operation,
      signal,
    });
    const body = holdLastChunk(bytes, () => ensureUnchanged(route, file, order));
    return { size, range: resolved, body };
  } catch (error) {
    response.body.destroy();
    throw error;
  }
}

/** Asks the download host; a URL that is refused is replaced once. */
async function request(
  route: DownloadRoute,
  file: DriveFile,
  order: DownloadOrder,
): Promise<Dispatcher.ResponseData> {
  const { range, operation, signal } = order;
  const headers: Record<string, string> = range ? { range: toRangeHeader(range) } : {};
  for (let attempt = 1; ; attempt++) {
    const url = await mintUrl(route, file.id, order);
    const response = await route.client.askAnonymously({
      method: "GET",
      url,
      headers,
      operation,
      signal,
    });
    const { statusCode } = response;
    if (statusCode === 200 || (range !== undefined && (statusCode === 206 || statusCode === 416)))
      return response;
    const answer = await readAnswer(response, operation, signal);
    if (attempt === 1 && staleStatuses.has(statusCode)) continue;
    // this host was asked without credentials, so it cannot mean ours
    throw toSluiceError(statusCode === 401 ? { ...answer, status: 502 } : answer, operation);
  }
}

interface BodyPlan {
  /** Bytes to drop first. */
  readonly skip: number;
  /** Bytes to deliver. */
  readonly length: number;
  /** More may come than is delivered. */
  readonly isCut: boolean;
  readonly operation: string;
  readonly signal: AbortSignal | undefined;
}

/** The bytes of a response in chunks of 256 KiB, counted against what was promised. */
function bodyOf(
  response: Dispatcher.ResponseData["body"],
  { skip, length, isCut, operation, signal }: BodyPlan,
): ReadableStream<Uint8Array> {
  const parts = response[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
  let dropped = 0;
  let delivered = 0;
  let rest: Uint8Array = new Uint8Array();
  let ended = false;

  const take = async (): Promise<void> => {
    const { done, value } = await parts.next().catch((error: unknown) => {
      signal?.throwIfAborted();
      const at = `byte ${delivered} of ${length}`;
      throw new SluiceError("interrupted", `${operation}: the connection broke at ${at}`, {
        cause: createCause(error),
      });
    });
    if (done) ended = true;
    else {
      const drop = Math.min(skip - dropped, value.byteLength);
      dropped += drop;
      rest = value.subarray(drop);
    }
  };

  return createBody({
    async next() {
      const wanted = Math.min(chunkBytes, length - delivered);
      if (wanted === 0) {
        if (isCut) return undefined;
        // the clean end is waited for: more may come
        if (rest.byteLength === 0) await take();
        if (ended) return undefined;
        throw new SluiceError(
          "corrupt",
          `${operation}: more than the promised ${length} bytes came`,
        );
      }
      const chunk = new Uint8Array(Buffer.allocUnsafeSlow(wanted).buffer);
      let filled = 0;
      while (filled < wanted) {
        if (rest.byteLength === 0) await take();
        if (ended)
          throw new SluiceError(
            "interrupted",
            `${operation}: it ended at byte ${delivered + filled} of ${length}`,
          );
        const part = rest.subarray(0, wanted - filled);
        chunk.set(part, filled);
        filled += part.byteLength;
        rest = rest.subarray(part.byteLength);
      }
      delivered += filled;
      return chunk;
    },
    release() {
      response.destroy();
    },
    signal,
  });
}

/** HTTP cannot ask for no bytes: an empty range asks for one. */
function toRangeHeader({ start, end }: ByteRange): string {
  return formatRange(end === undefined ? { start } : { start, end: Math.max(end, start + 1) });
}

/** Throws `precondition_failed` unless the content is still the one that was described. */
async function ensureUnchanged(
  { client, address }: DownloadRoute,
  { id, info }: DriveFile,
  { operation, signal }: DownloadOrder,
): Promise<void> {
  const answer = await client.ask({
    target: `${address.toItem(id)}?${selectItem}`,
    headers: info.etag === undefined ? {} : { "if-none-match": `"${info.etag}"` },
    expect: [200, 304, 404],
    operation,
    signal,
  });
  if (answer.status === 304) return;
  // a service that does not compare content tags tells what they are now
  if (answer.status === 200 && isSame(toObjectInfo(info.key, answer.body ?? {}), info)) return;
  throw new SluiceError("precondition_failed", `${operation}: it changed while it was read`);
}

/** The same content by its tags, or where there are none, by time and size. */
function isSame(now: ObjectInfo, before: ObjectInfo): boolean {
  if (now.etag !== undefined || before.etag !== undefined) return now.etag === before.etag;
  return now.size === before.size && now.lastModified?.getTime() === before.lastModified?.getTime();
}

function lengthOf(headers: Dispatcher.ResponseData["headers"]): number | undefined {
  const text = textOf(headers["content-length"]);
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
