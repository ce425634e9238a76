import type { IncomingMessage } from "node:http";
import { type ByteRange, SluiceError } from "@sluice/core";
import {
  createFlowBody,
  definedMembers,
  formatRange,
  parseContentRange,
} from "@sluice/core/internal";
import { flowOfReadable } from "@sluice/core/node";
import type { ObjectInfo, OpenedObject } from "@sluice/storage";
import {
  type Extent,
  holdLastChunk,
  readExtent,
  resolveRange,
  sliceBody,
} from "@sluice/storage/plugin";
import { type DriveFile, selectItem, toObjectInfo } from "../drive-item.ts";
import type { FileCall } from "../find-file.ts";
import { type GraphRoute, readAnswer } from "../graph-client.ts";
import { createCause, textOf, toSluiceError } from "../graph-error.ts";

/** Statuses of a download URL that died early: they say nothing about the user's permissions. */
const staleStatuses = new Set([401, 403, 404, 410]);

/** One download of a file that was found. */
export interface DownloadCall extends FileCall {
  readonly range: ByteRange | undefined;
}

/**
 * A fresh download URL: short-lived, anonymous, opaque. It is taken from the redirect of
 * `/content`, always by id: the annotation of the item disappears with `$select`.
 */
export async function mintUrl(
  { client, address }: GraphRoute,
  id: string,
  { operation, signal }: FileCall,
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
  route: GraphRoute,
  file: DriveFile,
  call: DownloadCall,
): Promise<OpenedObject> {
  const { range, operation, signal } = call;
  const response = await request(route, file, call);
  try {
    const { size, sent } = readAnswerExtent(response, file, call);
    const resolved = range && resolveRange(range, size, operation);
    const toError = (error: unknown): SluiceError =>
      new SluiceError("interrupted", `${operation}: the connection broke`, {
        cause: createCause(error),
      });
    const flow = flowOfReadable(response, { operation, signal, toError });
    const all = createFlowBody(flow, signal);
    const body = resolved && !isSameRange(resolved, sent) ? cut(all, resolved, sent.start) : all;
    return {
      // `driveItem.size` may lag behind
      info: { ...file.info, size },
      ...definedMembers({ range: resolved, validator: response.headers.etag }),
      body: holdLastChunk(body, () => ensureUnchanged(route, file, call)),
    };
  } catch (error) {
    response.destroy();
    throw error;
  }
}

/** The size of the whole file and the bytes that come, by the headers of a response. */
function readAnswerExtent(
  { statusCode, headers }: IncomingMessage,
  { info }: DriveFile,
  { range, operation }: DownloadCall,
): Extent {
  if ((textOf(headers["content-encoding"]) ?? "identity") !== "identity")
    throw new SluiceError(
      "protocol",
      `${operation}: the bytes came encoded, which was not asked for`,
    );
  const contentRange = textOf(headers["content-range"]);
  if (statusCode === 416)
    throw new SluiceError("range_not_satisfiable", `${operation}: the range is beyond the end`, {
      ...definedMembers({ size: parseContentRange(contentRange)?.size ?? info.size }),
    });
  const answer = {
    status: statusCode,
    contentLength: lengthOf(headers),
    contentRange,
    contentType: headers["content-type"],
    etag: headers.etag,
  };
  return readExtent(answer, { operation, range: range && toAskedRange(range), described: info });
}

function isSameRange(one: Required<ByteRange>, other: Required<ByteRange>): boolean {
  return one.start === other.start && one.end === other.end;
}

/** The wanted bytes of a body that begins at byte `from` of the file. */
function cut(
  body: ReadableStream<Uint8Array>,
  { start, end }: Required<ByteRange>,
  from: number,
): ReadableStream<Uint8Array> {
  return sliceBody(body, { start: start - from, end: end - from });
}

/** Asks the download host; a URL that is refused is replaced once. */
async function request(
  route: GraphRoute,
  file: DriveFile,
  call: DownloadCall,
): Promise<IncomingMessage> {
  const { range, operation, signal } = call;
  const headers: Record<string, string> = range ? { range: formatRange(toAskedRange(range)) } : {};
  for (let attempt = 1; ; attempt++) {
    const url = await mintUrl(route, file.id, call);
    const response = await route.client.download({ url, headers, operation, signal });
    const { statusCode = 0 } = response;
    if (statusCode === 200 || (range !== undefined && (statusCode === 206 || statusCode === 416)))
      return response;
    const answer = await readAnswer(
      { statusCode, headers: response.headers, body: response },
      operation,
      signal,
    );
    if (attempt === 1 && staleStatuses.has(statusCode)) continue;
    // this host was asked without credentials, so it cannot mean ours
    throw toSluiceError(statusCode === 401 ? { ...answer, status: 502 } : answer, operation);
  }
}

/** HTTP cannot ask for no bytes: an empty range asks for one. */
function toAskedRange({ start, end }: ByteRange): ByteRange {
  return end === undefined ? { start } : { start, end: Math.max(end, start + 1) };
}

/** Throws `precondition_failed` unless the content is still the one that was described. */
async function ensureUnchanged(
  { client, address }: GraphRoute,
  { id, info }: DriveFile,
  { operation, signal }: FileCall,
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

function lengthOf(headers: IncomingMessage["headers"]): number | undefined {
  const text = textOf(headers["content-length"]);
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
