import type { ByteRange } from "@sluice/core";
import { definedMembers, joinChunks } from "@sluice/core/internal";
import { advised } from "../faults/advice.ts";

/** A part of a resource as a client names it: `bytes 0-99` from 0, `lines 1-50` from 1, both ends included. */
export interface AskedRange {
  readonly unit: "bytes" | "lines";
  readonly first: number;
  /** Absent: to the end. */
  readonly last?: number;
}

/** How far a scan for lines, or for a place in decoded bytes, goes. */
const maxScanned = 256 * 1024 * 1024;
const newline = 0x0a;
/** The most bytes of a character after its first. */
const longestTail = 3;

/** Reads a range as it is written; the error says how that is. */
export function parseAskedRange(text: unknown): AskedRange {
  const match = typeof text === "string" ? grammar.exec(text.trim()) : undefined;
  const [, unit, from, to] = match ?? [];
  const first = Number(from);
  const last = to === undefined || to === "" ? undefined : Number(to);
  if (!match || (last !== undefined && last < first) || (unit === "lines" && first === 0))
    throw advised(
      "invalid_argument",
      'Write a range as "bytes 0-99", "bytes 100-", "lines 1-50" or "lines 51-"',
    );
  return { unit: unit as AskedRange["unit"], first, ...definedMembers({ last }) };
}

const grammar = /^(bytes|lines)[ =](\d{1,15}) ?[-\u2013] ?(\d{1,15})?$/;

/** How many bytes of a range are wanted, and offsets that also hold the end of a character that it may cut. */
export function toByteRange(
  { first, last }: AskedRange,
  maxBytes: number,
): { wantedBytes: number; range: Required<ByteRange> } {
  const wantedBytes = Math.min((last ?? Infinity) - first + 1, maxBytes);
  return { wantedBytes, range: { start: first, end: first + wantedBytes + longestTail } };
}

/**
 * Cuts text out of bytes so that no character is broken: one belongs to the range that its first byte
 * is in, so ranges side by side give the whole. `undefined` when it is not UTF-8.
 */
export function cutText(
  bytes: Uint8Array,
  {
    start,
    wantedBytes,
    isLossy = false,
  }: {
    start: number;
    wantedBytes: number;
    /** Bytes that are not UTF-8 become U+FFFD. */ isLossy?: boolean;
  },
): { text: string; start: number; end: number } | undefined {
  let from = 0;
  if (start > 0) while (from < longestTail && isTail(bytes[from])) from++;
  let to = Math.min(wantedBytes, bytes.length);
  while (to < wantedBytes + longestTail && isTail(bytes[to])) to++;
  const text = decodeText(bytes.subarray(Math.min(from, to), to), isLossy);
  return text === undefined
    ? undefined
    : { text, start: start + Math.min(from, to), end: start + to };
}

/** Text, where bytes are UTF-8; of other bytes only if it may be lossy. */
export function decodeText(bytes: Uint8Array, isLossy = false): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: !isLossy, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function isTail(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/**
 * Finds lines in a body, which is read no further than they go; at most `maxBytes` of them and the rest of a
 * character are kept. Fails if there are fewer lines. `onPassed` hears how many bytes before them were read.
 */
export async function findLines(
  body: AsyncIterable<Uint8Array>,
  { first, last = Infinity }: AskedRange,
  maxBytes: number,
  onPassed: (bytes: number) => void = () => {},
): Promise<{ bytes: Uint8Array; start: number; isMore: boolean }> {
  const most = maxBytes + longestTail;
  const chunks: Uint8Array[] = [];
  let keptBytes = 0;
  let line = 1;
  let lineStart = 0;
  let offset = 0;
  let start = 0;
  try {
    // leaving the loop cancels the body
    for await (const chunk of body) {
      const passLines = (from: number, isOver: () => boolean): number => {
        let at = from;
        while (at < chunk.length && !isOver()) {
          const end = chunk.indexOf(newline, at);
          at = end < 0 ? chunk.length : end + 1;
          if (end < 0) continue;
          line++;
          lineStart = offset + at;
        }
        return at;
      };
      const from = passLines(0, () => line >= first);
      if (line >= first && from < chunk.length) {
        if (keptBytes === 0) start = offset + from;
        const to = passLines(from, () => line > last);
        // copied: a view would keep the whole chunk
        const piece = chunk.slice(from, Math.min(to, from + most - keptBytes));
        chunks.push(piece);
        keptBytes += piece.length;
      }
      offset += chunk.length;
      // read on where the chunk ends with the last line: only what follows tells that there is more
      if ((line > last && offset > start + keptBytes) || keptBytes >= most) break;
      if (keptBytes === 0 && offset > maxScanned)
        throw advised("too_large", `Line ${first} is too far in to count to: ask for bytes`);
    }
  } finally {
    onPassed(keptBytes === 0 ? offset : start);
  }
  // an empty text begins with its first line
  if (keptBytes === 0 && (offset > 0 || first > 1))
    throw advised(
      "invalid_argument",
      `The resource has ${line - 1 + (offset > lineStart ? 1 : 0)} lines`,
    );
  return { bytes: joinChunks(chunks, keptBytes), start, isMore: offset > start + keptBytes };
}

/**
 * Finds a range of bytes in content that can only be read from its start, which is read no further than the range
 * goes. Fails if it begins after the end. `onPassed` hears how many bytes before it were read.
 */
export async function findBytes(
  body: AsyncIterable<Uint8Array>,
  { start, end }: { start: number; end: number },
  onPassed: (bytes: number) => void = () => {},
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let keptBytes = 0;
  let offset = 0;
  try {
    // leaving the loop cancels the body
    for await (const chunk of body) {
      // copied: a view would keep the whole chunk
      const piece = chunk.slice(Math.max(0, start - offset), Math.max(0, end - offset));
      chunks.push(piece);
      keptBytes += piece.length;
      offset += chunk.length;
      if (offset >= end) break;
      if (offset <= start && offset > maxScanned)
        throw advised(
          "too_large",
          `Byte ${start} is too far in to decode to: use resources/stream`,
        );
    }
  } finally {
    onPassed(Math.min(start, offset));
  }
  if (offset < start || (offset === start && start > 0))
    throw advised("invalid_argument", `The resource has ${offset} bytes`);
  return joinChunks(chunks, keptBytes);
}

/** How many lines some text has a part of. */
export function countLines(bytes: Uint8Array): number {
  let lines = 0;
  let at = 0;
  for (; at < bytes.length; lines++) {
    const end = bytes.indexOf(newline, at);
    at = end < 0 ? bytes.length : end + 1;
  }
  return lines;
}
