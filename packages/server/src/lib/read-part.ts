import { discardSource, formatEntityTag, SluiceError } from "@sluice/core";
import type { CallOptions, ObjectInfo, OpenedObject, OpenOptions } from "@sluice/storage";
import { advised } from "./advice.ts";
import type { Reach } from "./reach.ts";
import {
  countLines,
  cutText,
  decodeText,
  findLines,
  joined,
  toByteRange,
  type AskedRange,
} from "./read-range.ts";
import { isTextual, resourceType } from "./resource-type.ts";
import { storageFault } from "./storage-fault.ts";

/** Which part of which version a caller wants to read. */
export interface PartRequest {
  readonly key: string;
  /** Absent: all of it, which is refused when it is larger than `maxBytes`. */
  readonly range?: AskedRange;
  /** Entity tag of the version that it must be. */
  readonly etag?: string;
  /** Most bytes to give; of a longer range the beginning. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal;
  /** Hears how many bytes were read to find lines, and are not given. */
  readonly onPassed?: (bytes: number) => void;
  /** Hears how many bytes will be collected at most, before the first is read; what it throws ends the reading. */
  readonly onSize?: (bytes: number) => void;
}

/** Content that fits into JSON. */
export interface Part {
  readonly info: ObjectInfo;
  readonly mimeType: string;
  readonly bytes: Uint8Array;
  /** The same, where it is text. */
  readonly text?: string;
  /** Of a range: what it is, in words of the request, and what comes after it. */
  readonly range?: { readonly bytes: string; readonly lines?: string; readonly next?: string };
}

/** Reads a resource or a part of it, from one version. */
export async function readPart(reach: Reach, request: PartRequest): Promise<Part> {
  const { range } = request;
  if (!range) return readWhole(await open(reach, request), request);
  return range.unit === "bytes"
    ? readBytes(reach, request, range)
    : readLines(reach, request, range);
}

/** What `_meta` of content says: its version, and for a part where it is. */
export interface PartMeta {
  /** As in the `ETag` header. */
  readonly etag?: string;
  /** Of the whole resource. */
  readonly size?: number;
  readonly range?: string;
  readonly lines?: string;
  readonly next?: string;
}

/** `_meta` of content. */
export function partMeta({ info: { etag, size }, range }: Part): PartMeta {
  return {
    ...(etag !== undefined && { etag: formatEntityTag(etag) }),
    ...(range && { ...(size !== undefined && { size }), range: range.bytes }),
    ...(range?.lines !== undefined && { lines: range.lines }),
    ...(range?.next !== undefined && { next: range.next }),
  };
}

async function open(
  reach: Reach,
  { key, etag, signal }: PartRequest,
  options: OpenOptions = {},
): Promise<OpenedObject> {
  const call = signal ? { signal } : {};
  try {
    const ifMatch = etag === undefined ? undefined : await versionOf(reach, { key, etag, call });
    return await reach.open(key, {
      ...options,
      ...call,
      ...(ifMatch !== undefined && { ifMatch }),
    });
  } catch (error) {
    if (SluiceError.is(error) && error.code === "precondition_failed")
      throw advised("invalid_argument", "The resource has changed: read it from the start", error);
    if (SluiceError.is(error) && error.code === "range_not_satisfiable")
      throw advised(
        "invalid_argument",
        error.size === undefined
          ? "The range begins behind the end of the resource"
          : `The resource has ${error.size} bytes`,
        error,
      );
    throw storageFault(error);
  }
}

/** The etag of storage behind the entity tag that a client has; a tag does not tell it alone. */
async function versionOf(
  reach: Reach,
  { key, etag, call }: { key: string; etag: string; call: CallOptions },
): Promise<string> {
  const info = await reach.describe(key, call);
  if (info.etag !== undefined && formatEntityTag(info.etag) === etag) return info.etag;
  throw new SluiceError("precondition_failed", "sluice: read: another version is there");
}

async function readWhole(opened: OpenedObject, request: PartRequest): Promise<Part> {
  const bytes = await collect(opened, request);
  const mimeType = resourceType(opened.info);
  const text = isText(opened.info) ? decodeText(bytes) : undefined;
  return { info: opened.info, mimeType, bytes, ...(text !== undefined && { text }) };
}

async function readBytes(reach: Reach, request: PartRequest, range: AskedRange): Promise<Part> {
  const asked = toByteRange(range, request.maxBytes);
  const opened = await open(reach, request, { range: asked.range });
  const { info } = opened;
  const all = await collect(opened, {
    ...request,
    maxBytes: asked.range.end - asked.range.start,
  });
  const start = range.first;
  const mimeType = resourceType(info);
  const cut = isText(info) ? cutText(all, { start, wanted: asked.wanted }) : undefined;
  const at = cut ?? { start, end: start + Math.min(asked.wanted, all.length) };
  const bytes = all.subarray(at.start - start, at.end - start);
  return {
    info,
    mimeType,
    bytes,
    ...(cut && { text: cut.text }),
    range: {
      bytes: formatBytes(at.start, at.end),
      ...(isMore(info, at.end, all.length > at.end - start) && { next: `bytes ${at.end}-` }),
    },
  };
}

async function readLines(reach: Reach, request: PartRequest, range: AskedRange): Promise<Part> {
  const opened = await open(reach, request);
  const { info } = opened;
  if (!isText(info)) {
    await discardSource(opened);
    throw noLines();
  }
  const { maxBytes, onPassed, onSize } = request;
  try {
    onSize?.(maxBytes);
  } catch (error) {
    await discardSource(opened, error);
    throw error;
  }
  const found = await findLines(opened.body, range, maxBytes, onPassed);
  const isCut = found.bytes.length > maxBytes;
  // begins at a line, so nothing is cut at its start
  const cut = cutText(found.bytes, { start: 0, wanted: isCut ? maxBytes : found.bytes.length });
  if (!cut) throw noLines();
  const bytes = found.bytes.subarray(0, cut.end);
  const end = found.start + cut.end;
  const last = range.first + countLines(bytes) - 1;
  const next = isCut ? `bytes ${end}-` : `lines ${last + 1}-`;
  return {
    info,
    mimeType: resourceType(info),
    bytes,
    text: cut.text,
    range: {
      bytes: formatBytes(found.start, end),
      lines: `lines ${range.first}-${last}`,
      ...(isMore(info, end, isCut) && { next }),
    },
  };
}

function noLines(): SluiceError {
  return advised("invalid_argument", "Lines are for text in UTF-8: ask for bytes");
}

function isText(info: ObjectInfo): boolean {
  return info.contentEncoding === undefined && isTextual(resourceType(info));
}

/** Where the size is not known, there may always be more. */
function isMore({ size }: ObjectInfo, end: number, hasMore: boolean): boolean {
  return hasMore || size === undefined || end < size;
}

function formatBytes(start: number, end: number): string {
  return end > start ? `bytes ${start}-${end - 1}` : "bytes none";
}

async function collect(
  opened: OpenedObject,
  { maxBytes, onSize }: Pick<PartRequest, "maxBytes" | "onSize">,
): Promise<Uint8Array> {
  const { info, range } = opened;
  const promised = range ? range.end - range.start : info.size;
  try {
    ensureSmall(promised ?? 0, maxBytes);
    onSize?.(promised ?? maxBytes);
  } catch (error) {
    await discardSource(opened, error);
    throw error;
  }
  const chunks: Uint8Array[] = [];
  let received = 0;
  // leaving the loop by an error cancels the body
  for await (const chunk of opened.body) {
    received += chunk.byteLength;
    ensureSmall(received, maxBytes);
    chunks.push(chunk);
  }
  return joined(chunks, received);
}

function ensureSmall(bytes: number, maxBytes: number): void {
  if (bytes > maxBytes)
    throw new SluiceError("too_large", `sluice: read: larger than ${maxBytes} bytes; stream it`, {
      size: bytes,
    });
}
