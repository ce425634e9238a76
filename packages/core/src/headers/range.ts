import { fieldText } from "./field-text.ts";
import type { ByteRange } from "../bytes/source.ts";

/** A parsed `Content-Range` header (RFC 9110 §14.4). */
export interface ContentRange {
  /** The bytes that follow; absent in a 416, which only tells the size. */
  readonly range?: Required<ByteRange> | undefined;
  /** Bytes of the whole object; absent when the sender does not know (`*`). */
  readonly size?: number | undefined;
}

/**
 * Reads a `Range` header against an object of `size` bytes (RFC 9110 §14.1, §14.2).
 * Gives the range, clamped to the object; `"unsatisfiable"` when it starts at or beyond the end
 * (answer 416); `undefined` when the whole object is to be served with 200: no header, another
 * unit, more than one range, malformed, or a suffix of an empty object, which no 206 can express.
 */
export function parseRange(
  header: string | null | undefined,
  size: number,
): Required<ByteRange> | "unsatisfiable" | undefined {
  ensureSize(size);
  const match = singleRange.exec(fieldText(header));
  if (!match) return undefined;
  const [, first = "", last = ""] = match;
  if (first === "") {
    if (last === "") return undefined;
    const length = Number(last);
    if (length === 0) return "unsatisfiable";
    return size === 0 ? undefined : { start: Math.max(0, size - length), end: size };
  }
  const start = Number(first);
  if (last !== "" && Number(last) < start) return undefined;
  if (start >= size) return "unsatisfiable";
  return { start, end: last === "" ? size : Math.min(Number(last) + 1, size) };
}

/** A `Range` header for one range: `bytes=5-` without an end, else `bytes=5-9` for `[5, 10)`. */
export function formatRange(range: ByteRange): string {
  const { start, end } = range;
  ensureSize(start);
  if (end === undefined) return `bytes=${start}-`;
  ensureSize(end);
  if (end <= start) throw new RangeError(`range: [${start}, ${end}) is empty`);
  return `bytes=${start}-${end - 1}`;
}

/** Reads a `Content-Range` header; `undefined` when it is absent, malformed or contradicts itself. */
export function parseContentRange(header: string | null | undefined): ContentRange | undefined {
  const match = contentRange.exec(fieldText(header));
  if (!match) return undefined;
  const [, first, last, total] = match;
  const size = total === "*" ? undefined : Number(total);
  if (size !== undefined && !Number.isSafeInteger(size)) return undefined;
  if (first === undefined) return size === undefined ? undefined : { size };
  const start = Number(first);
  const end = Number(last) + 1;
  if (!Number.isSafeInteger(end) || end <= start) return undefined;
  if (size === undefined) return { range: { start, end } };
  return end > size ? undefined : { range: { start, end }, size };
}

/**
 * A `Content-Range` header: of a 206 with `range`, where an unknown `size` is `*`; of a 416 with
 * only `size` (RFC 9110 §15.5.17).
 */
export function formatContentRange({ range, size }: ContentRange): string {
  if (size !== undefined) ensureSize(size);
  return `bytes ${range ? formatRange(range).slice("bytes=".length) : "*"}/${size ?? "*"}`;
}

// empty list elements are legal and ignored (RFC 9110 §5.6.1.2); no part can match in two ways, so no backtracking
const singleRange = /^bytes=[\t ]*(?:,[\t ]*)*(\d*)-(\d*)[\t ]*(?:,[\t ]*)*$/i;
const contentRange = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/i;

function ensureSize(value: number): void {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`range: ${value} is not a byte count; pass a safe integer from 0`);
}
