import type { IncomingMessage, ServerResponse } from "node:http";
import { formatContentRange, parseRange } from "@sluice/core/internal";
import type { Deviation, Fault } from "./options.ts";
import { Refusal } from "./refusal.ts";
import type { StoredObject } from "./store.ts";

const pieceBytes = 256 * 1024;

/** What {@link sendObject} goes by beside the object. */
export interface Sending {
  readonly query: ReadonlyMap<string, string>;
  readonly deviates: (deviation: Deviation) => boolean;
  /** Takes the fault that meets this body, if one is due. */
  readonly takeFault: (ranged: boolean) => Fault | undefined;
  readonly onSent: (bytes: number) => void;
}

/** Answers GET and HEAD of an object. Throws a {@link Refusal}. */
export async function sendObject(
  request: IncomingMessage,
  response: ServerResponse,
  object: StoredObject,
  { query, deviates, takeFault, onSent }: Sending,
): Promise<void> {
  const { content, meta } = object;
  const { headers, method } = request;
  if (!deviates("ignores-read-conditions")) ensureConditions(headers, object);
  const archived = meta.storageClass === "GLACIER" || meta.storageClass === "DEEP_ARCHIVE";
  if (archived && method === "GET") throw new Refusal(403, "InvalidObjectState");

  const fault = method === "GET" ? takeFault(headers.range !== undefined) : undefined;
  if (fault?.page) {
    const { type, text, isCounted } = fault.page;
    const length = { "content-length": Buffer.byteLength(text) };
    response.writeHead(200, { "content-type": type, ...(isCounted && length) });
    return void response.end(text);
  }
  const ranged = !deviates("ignores-ranges") && !fault?.ignoreRange;
  const range = ranged ? parseRange(headers.range, content.size) : undefined;
  if (range === "unsatisfiable")
    throw new Refusal(416, "InvalidRange", "The requested range is not satisfiable", {
      RangeRequested: String(headers.range),
      ActualObjectSize: String(content.size),
    });
  const { start, end } = range ?? { start: 0, end: content.size };
  const wantsChecksums = headers["x-amz-checksum-mode"] === "ENABLED" && range === undefined;
  const { contentType = "binary/octet-stream", contentEncoding, storageClass } = meta;
  response.writeHead(range ? 206 : 200, {
    "accept-ranges": "bytes",
    "content-length": end - start,
    "content-type": contentType,
    ...(fault?.validator !== "none" && {
      etag: `"${fault?.validator === "other" ? "another" : object.etag}"`,
    }),
    "last-modified": object.lastModified.toUTCString(),
    ...(contentEncoding !== undefined && { "content-encoding": contentEncoding }),
    ...(storageClass !== undefined && { "x-amz-storage-class": storageClass }),
    ...(range && { "content-range": formatContentRange({ range, size: content.size }) }),
    ...Object.fromEntries(
      Object.entries(meta.user ?? {}).map(([name, value]) => [`x-amz-meta-${name}`, value]),
    ),
    ...(wantsChecksums && checksumHeaders(meta)),
    ...(!deviates("ignores-overrides") && overrides(query)),
  });
  if (method === "HEAD") return void response.end();
  await sendBytes(response, object, { start, end, fault: fault ?? {}, onSent });
}

async function sendBytes(
  response: ServerResponse,
  { content }: StoredObject,
  {
    start,
    end,
    fault,
    onSent,
  }: { start: number; end: number; fault: Fault; onSent: (bytes: number) => void },
): Promise<void> {
  const { resetAfter, endAfter, stallAfter, corruptAt = -1 } = fault;
  const stop = start + (resetAfter ?? endAfter ?? stallAfter ?? Infinity);
  for (let position = start; position < Math.min(end, stop);) {
    let piece = content.read(position, Math.min(end, stop, position + pieceBytes));
    if (corruptAt >= position && corruptAt < position + piece.byteLength) {
      piece = piece.slice();
      piece[corruptAt - position]! ^= 0xff;
    }
    position += piece.byteLength;
    onSent(piece.byteLength);
    if (!response.write(piece)) await writable(response);
    if (response.destroyed) return;
  }
  if (end <= stop) return void response.end();
  if (stallAfter !== undefined) return;
  await new Promise<void>((resolve) => response.write("", () => resolve()));
  if (resetAfter === undefined) response.socket?.end();
  else response.socket?.resetAndDestroy();
}

function ensureConditions(headers: IncomingMessage["headers"], { etag }: StoredObject): void {
  const { "if-match": ifMatch, "if-none-match": ifNoneMatch } = headers;
  const isIt = (tags: string): boolean => tags === "*" || tags === `"${etag}"`;
  if (ifMatch !== undefined && !isIt(ifMatch)) throw new Refusal(412, "PreconditionFailed");
  if (ifNoneMatch !== undefined && isIt(ifNoneMatch)) throw new Refusal(304, "NotModified");
}

function checksumHeaders({ checksums = {}, checksumType = "FULL_OBJECT" }: StoredObject["meta"]) {
  const entries = Object.entries(checksums);
  if (entries.length === 0) return {};
  return {
    ...Object.fromEntries(entries.map(([name, value]) => [`x-amz-checksum-${name}`, value])),
    "x-amz-checksum-type": checksumType,
  };
}

function overrides(query: ReadonlyMap<string, string>): Record<string, string> {
  return Object.fromEntries(
    [...query].flatMap(([name, value]) => {
      const header = /^response-(content-\w+|cache-control|expires)$/.exec(name)?.[1];
      return header === undefined ? [] : [[header, value]];
    }),
  );
}

/** Resolves when more may be written, or nothing more can be. */
function writable(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const onEnd = (): void => {
      response.off("drain", onEnd).off("close", onEnd);
      resolve();
    };
    response.on("drain", onEnd).on("close", onEnd);
  });
}
