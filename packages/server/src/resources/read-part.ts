import { SluiceError } from "@sluice/core";
import { definedMembers, discardSource, formatEntityTag, joinChunks } from "@sluice/core/internal";
import type { ObjectInfo, OpenedObject, CallOptions, OpenOptions } from "@sluice/storage";
import { decodeContent, isCoded } from "../content/content-coding.ts";
import { takeHead } from "../content/content-head.ts";
import type { MediaFormat } from "../content/media-signature.ts";
import {
  beginsAsText,
  hasBinaryBytes,
  headBytes,
  isTextual,
  knownType,
  resourceType,
  storedAsText,
} from "../content/resource-type.ts";
import { inUtf8 } from "../content/text-encoding.ts";
import { advised, tooLargeToRead } from "../faults/advice.ts";
import { RedirectError } from "../provide/provider.ts";
import { useOrDiscard, type AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { ResourceMetadata } from "../storage/resource-metadata.ts";
import {
  countLines,
  cutText,
  decodeText,
  findBytes,
  findLines,
  toByteRange,
  type AskedRange,
} from "./read-range.ts";

/** Which part of which version a caller wants to read. */
export interface PartRequest {
  readonly key: string;
  /** Absent: all of it, which is refused when it is larger than `maxBytes`. */
  readonly range?: AskedRange;
  /** Entity tag of the version that it must be. */
  readonly etag?: string;
  /** Maximum bytes to give; of a longer range the beginning. */
  readonly maxBytes: number;
  /**
   * The content is text in this encoding, as `TextDecoder` names it; bytes that are not become U+FFFD. A range is one of the
   * text in UTF-8. Default: text is valid UTF-8.
   */
  readonly encoding?: string;
  readonly signal?: AbortSignal;
  /** Hears how many bytes were read to find lines, and are not given. */
  readonly onPassed?: (bytes: number) => void;
  /** Hears how many bytes will be collected at most, before the first is read; what it throws ends the reading. */
  readonly onSize?: (bytes: number) => void;
}

/** Content that fits into JSON. */
export interface ResourcePart {
  readonly info: ObjectInfo;
  readonly mimeType: string;
  readonly bytes: Uint8Array;
  /** The same, where it is text. */
  readonly text?: string;
  /** Of a range: what it is, in words of the request, and what comes after it. */
  readonly range?: { readonly bytes: string; readonly lines?: string; readonly next?: string };
  /** Of text that was read in a named encoding. */
  readonly encoding?: string;
  /** Of a whole picture or sound that was read for a model. */
  readonly media?: MediaFormat;
  /** What the author of the server knows; absent if nothing was said. */
  readonly known?: ResourceMetadata;
}

/** Reads a resource or a part of it, from one version, without the content codings that it is stored with. */
export async function readPart(
  storage: AuthorizedStorage,
  request: PartRequest,
): Promise<ResourcePart> {
  const { encoding } = request;
  const part = { ...(await readBody(storage, request)), ...definedMembers({ encoding }) };
  const facts = await storage.about?.(part.info, request.signal);
  return facts ? { ...part, known: facts, mimeType: facts.mimeType ?? part.mimeType } : part;
}

async function readBody(storage: AuthorizedStorage, request: PartRequest): Promise<ResourcePart> {
  const { range } = request;
  if (!range) return readWhole(await openVersion(storage, request), request);
  return range.unit === "bytes"
    ? readBytes(storage, request, range)
    : readLines(await openVersion(storage, request), request, range);
}

/** What `_meta` of content says: its version, and for a part where it is. */
interface PartMeta {
  /** As in the `ETag` header. */
  readonly etag?: string;
  /** Of the whole resource. */
  readonly size?: number;
  readonly range?: string;
  readonly lines?: string;
  readonly next?: string;
}

/** `_meta` of content. */
export function partMeta({ info, range, encoding }: ResourcePart): PartMeta {
  const { etag } = info;
  const size = isCoded(info) || isTranslated(encoding) ? undefined : info.size;
  return definedMembers({
    etag: etag === undefined ? undefined : formatEntityTag(etag),
    size: range && size,
    range: range?.bytes,
    lines: range?.lines,
    next: range?.next,
  });
}

async function readWhole(opened: OpenedObject, request: PartRequest): Promise<ResourcePart> {
  const { info } = opened;
  const bytes = await collect(opened, request);
  const isText = beginsAsText(info, bytes.subarray(0, headBytes));
  const text = isText ? decodeText(bytes) : undefined;
  return { info, mimeType: resourceType(info, isText), bytes, ...definedMembers({ text }) };
}

async function readBytes(
  storage: AuthorizedStorage,
  request: PartRequest,
  range: AskedRange,
): Promise<ResourcePart> {
  const { wantedBytes, range: byteRange } = toByteRange(range, request.maxBytes);
  const { start, end } = byteRange;
  if (isTranslated(request.encoding))
    return readDecodedBytes(await openVersion(storage, request), request, range);
  const opened = await openVersion(storage, request, { range: byteRange }).catch((error: unknown) =>
    openWhole(storage, request, error),
  );
  const { info } = opened;
  if (isCoded(info) || !opened.range) {
    // what was opened is a range of the coded bytes
    if (opened.range) await discardSource(opened);
    return readDecodedBytes(
      opened.range ? await openVersion(storage, request) : opened,
      request,
      range,
    );
  }
  const all = await collect(opened, { ...request, maxBytes: end - start });
  const isLossy = request.encoding !== undefined;
  const isText = isLossy || (await isTextRange(storage, request, { info, start, all }));
  return byteRangeOf(info, all, { start, wantedBytes, isText, isLossy, sawEnd: false });
}

/** Whether a range is text: by the first bytes of the resource, and by its own where the type is one of text. */
async function isTextRange(
  storage: AuthorizedStorage,
  { signal }: PartRequest,
  { info, start, all }: { info: ObjectInfo; start: number; all: Uint8Array },
): Promise<boolean> {
  if (start === 0 && (all.length >= headBytes || all.length === info.size))
    return beginsAsText(info, all.subarray(0, headBytes));
  if (isTextual(knownType(info) ?? "")) return storedAsText(info) ?? !hasBinaryBytes(all);
  try {
    return await storage.isText(info, definedMembers({ signal }));
  } catch (error) {
    throw readFault(error);
  }
}

/**
 * Opens the whole where a range of it cannot be had: some objects are read whole only, and a range behind the stored
 * bytes may be one of the decoded bytes. The start of an empty object is not a fault.
 */
async function openWhole(
  storage: AuthorizedStorage,
  request: PartRequest,
  error: unknown,
): Promise<OpenedObject> {
  if (SluiceError.is(error) && error.code === "unsupported" && !(error instanceof RedirectError))
    return openVersion(storage, request);
  const { cause } = error as { cause?: unknown };
  if (!SluiceError.is(cause) || cause.code !== "range_not_satisfiable") throw error;
  const { key, signal } = request;
  const info = await storage.describe(key, definedMembers({ signal }));
  if (isCoded(info) || (info.size === 0 && request.range?.first === 0))
    return openVersion(storage, request);
  throw error;
}

async function readDecodedBytes(
  opened: OpenedObject,
  request: PartRequest,
  range: AskedRange,
): Promise<ResourcePart> {
  const { info } = opened;
  const { wantedBytes, range: byteRange } = toByteRange(range, request.maxBytes);
  const { start, end } = byteRange;
  await announce(opened, request, end - start);
  const { head, all } = await takeHead(await decoded(opened, request));
  // one byte more tells whether there is more
  const bytes = await findBytes(all, { start, end: end + 1 }, request.onPassed);
  const isLossy = request.encoding !== undefined;
  return byteRangeOf(info, bytes, {
    start,
    wantedBytes,
    isText: isLossy || beginsAsText(info, head),
    isLossy,
    sawEnd: bytes.length <= end - start,
  });
}

interface ReadBytes {
  readonly start: number;
  readonly wantedBytes: number;
  readonly isText: boolean;
  /** Bytes that are not UTF-8 become U+FFFD. */
  readonly isLossy: boolean;
  /** The content ends with these bytes. */
  readonly sawEnd: boolean;
}

/** The wanted bytes of those that were read, as text without broken characters where they are text. */
function byteRangeOf(
  info: ObjectInfo,
  all: Uint8Array,
  { start, wantedBytes, isText, isLossy, sawEnd }: ReadBytes,
): ResourcePart {
  const cut = isText ? cutText(all, { start, wantedBytes, isLossy }) : undefined;
  const at = cut ?? { start, end: start + Math.min(wantedBytes, all.length) };
  const bytes = all.subarray(at.start - start, at.end - start);
  const hasMore = all.length > at.end - start || (!sawEnd && isMore(info, at.end));
  return {
    info,
    mimeType: resourceType(info, isText),
    bytes,
    ...definedMembers({ text: cut?.text }),
    range: {
      bytes: formatBytes(at.start, at.end),
      ...definedMembers({ next: hasMore ? `bytes ${at.end}-` : undefined }),
    },
  };
}

async function readLines(
  opened: OpenedObject,
  request: PartRequest,
  range: AskedRange,
): Promise<ResourcePart> {
  const { info } = opened;
  const { maxBytes, onPassed } = request;
  await announce(opened, request, maxBytes);
  const { head, all, end: stop } = await takeHead(await decoded(opened, request));
  const isLossy = request.encoding !== undefined;
  if (!isLossy && !beginsAsText(info, head)) {
    await stop();
    throw noLinesFault;
  }
  const found = await findLines(all, range, maxBytes, onPassed);
  const isCut = found.bytes.length > maxBytes;
  // begins at a line, so nothing is cut at its start
  const cut = cutText(found.bytes, {
    start: 0,
    wantedBytes: isCut ? maxBytes : found.bytes.length,
    isLossy,
  });
  if (!cut) throw noLinesFault;
  const bytes = found.bytes.subarray(0, cut.end);
  const end = found.start + cut.end;
  const lines = countLines(bytes);
  const last = range.first + lines - 1;
  const next = isCut ? `bytes ${end}-` : `lines ${last + 1}-`;
  return {
    info,
    mimeType: resourceType(info, true),
    bytes,
    text: cut.text,
    range: {
      bytes: formatBytes(found.start, end),
      lines: lines === 0 ? "lines none" : `lines ${range.first}-${last}`,
      ...definedMembers({ next: isCut || found.isMore ? next : undefined }),
    },
  };
}

/** The decoded body of an object, with text in UTF-8. Discards an object that cannot be decoded. */
async function decoded(
  opened: OpenedObject,
  { encoding }: Pick<PartRequest, "encoding">,
): Promise<AsyncIterable<Uint8Array>> {
  const { body, info } = opened;
  const bytes = await useOrDiscard(opened, () => decodeContent(body, info.contentEncoding));
  return isTranslated(encoding) ? inUtf8(bytes, encoding) : bytes;
}

/** True for text of another encoding than UTF-8: its bytes are others than the stored ones. */
function isTranslated(encoding: string | undefined): encoding is string {
  return encoding !== undefined && encoding !== "utf-8";
}

/** Announces how many bytes will be collected. Discards the object when that throws. */
function announce(opened: OpenedObject, { onSize }: PartRequest, bytes: number): Promise<void> {
  return useOrDiscard(opened, () => onSize?.(bytes));
}

/** Thrown where lines are asked for of what is not text in UTF-8. */
export const noLinesFault: SluiceError = advised(
  "invalid_argument",
  "Lines are for text in UTF-8: ask for bytes",
);

/** Where the size is not known, there may always be more. */
function isMore(info: ObjectInfo, end: number): boolean {
  return !isCoded(info) && (info.size === undefined || end < info.size);
}

function formatBytes(start: number, end: number): string {
  return end > start ? `bytes ${start}-${end - 1}` : "bytes none";
}

async function collect(opened: OpenedObject, request: PartRequest): Promise<Uint8Array> {
  const { info, range } = opened;
  const { maxBytes } = request;
  const stored = range ? range.end - range.start : info.size;
  const promised = isCoded(info) ? undefined : stored;
  await useOrDiscard(opened, () => {
    if (promised !== undefined && promised > maxBytes) throw tooLarge(info, promised);
  });
  await announce(opened, request, promised ?? maxBytes);
  const chunks: Uint8Array[] = [];
  let received = 0;
  // leaving the loop by an error cancels the body
  for await (const chunk of await decoded(opened, request)) {
    received += chunk.byteLength;
    if (received > maxBytes) throw tooLarge(info);
    chunks.push(chunk);
  }
  return joinChunks(chunks, received);
}

function tooLarge(info: ObjectInfo, size?: number): SluiceError {
  const type = knownType(info);
  return tooLargeToRead(size, type !== undefined && !isTextual(type));
}

interface VersionRequest {
  readonly key: string;
  readonly range?: AskedRange;
  /** Entity tag of the version that it must be. */
  readonly etag?: string;
  readonly signal?: AbortSignal;
}

/**
 * Opens the version that a client asks for, or, of a range without a version, one whose version storage names where it can.
 * Rejects with what a client may learn.
 */
async function openVersion(
  storage: AuthorizedStorage,
  { key, range, etag, signal }: VersionRequest,
  options: OpenOptions = {},
): Promise<OpenedObject> {
  const call = definedMembers({ signal });
  try {
    if (etag !== undefined) {
      const ifMatch = await versionOf(storage, { key, etag, call });
      return await storage.open(key, { ...options, ...call, ifMatch });
    }
    const opened = await storage.open(key, { ...options, ...call });
    if (range === undefined || opened.info.etag !== undefined) return opened;
    // storage may name the version a moment later: without it nothing tells that the next part is of another
    await discardSource(opened);
    const { etag: named } = await storage.describe(key, call);
    return await storage.open(key, { ...options, ...call, ...definedMembers({ ifMatch: named }) });
  } catch (error) {
    throw readFault(error);
  }
}

/** What a reader may learn of a fault of storage, with advice. */
function readFault(error: unknown): unknown {
  if (SluiceError.is(error) && error.code === "precondition_failed")
    return advised("invalid_argument", "The resource has changed: read it from the start", error);
  if (SluiceError.is(error) && error.code === "range_not_satisfiable")
    return advised(
      "invalid_argument",
      error.size === undefined
        ? "The range begins after the end of the resource"
        : `The resource has ${error.size} bytes`,
      error,
    );
  return error;
}

/** The etag of storage behind the entity tag that a client has; a tag does not tell it alone. */
async function versionOf(
  storage: AuthorizedStorage,
  { key, etag, call }: { key: string; etag: string; call: CallOptions },
): Promise<string> {
  const info = await storage.describe(key, call);
  if (info.etag !== undefined && formatEntityTag(info.etag) === etag) return info.etag;
  throw new SluiceError("precondition_failed", "sluice: read: another version is there");
}
