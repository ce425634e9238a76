import { ByteQueue } from "@sluice/core";

/** What the scanner makes of JSON text. The steps of all chunks, in order, are the whole text. */
export type ScanStep =
  /** Passes as it is. The quotes of a long string are part of it. */
  | { readonly kind: "inline"; readonly bytes: Uint8Array }
  /** A long string begins, in this member of an object at this level (1: the outermost); none in an array. */
  | { readonly kind: "begin"; readonly member: string | undefined; readonly level: number }
  /** Bytes of the long string as they are written, escapes and all. */
  | { readonly kind: "content"; readonly bytes: Uint8Array }
  | { readonly kind: "end" }
  /** It has no end: other bytes came in its middle. */
  | { readonly kind: "broken" };

/** Finds long strings in JSON text that comes in chunks. */
interface StringScanner {
  /** The text so far has more arrays and objects than any parser of ours is given. */
  readonly isTooWide: boolean;
  scan(chunk: Uint8Array): ScanStep[];
  /** Bytes that are no JSON follow. A string that they lie in is malformed. */
  interrupt(): ScanStep[];
  /** Gives what it held back, and is ready for the next text. */
  finish(): ScanStep[];
}

type StringKind = "none" | "key" | "candidate" | "kept" | "long";

/**
 * Makes a scanner that finds values of more than `inlineBytes` between their quotes. Names of members are never
 * found, nor anything below 128 levels, nor what is in a call of the server or in `inputRequests` of a result, which are
 * calls, too: only answers have long strings to find.
 * It takes any text; text that is no JSON gives some steps, which the parser behind refuses.
 */
export function createStringScanner(inlineBytes: number): StringScanner {
  /** One entry for each open array or object: true for an object. */
  let levels: boolean[] = [];
  let isTooDeep = false;
  let containers = 0;
  let isCall = false;
  /** Level of the open `inputRequests` of a result (2026-07-28); 0 outside of one. */
  let requestsLevel = 0;
  let isKeyNext = false;
  let member: string | undefined;
  let string: StringKind = "none";
  let isEscaped = false;
  /** What has come of a candidate in earlier chunks, or of a key. */
  const heldBytes = new ByteQueue();
  /** The next backslash of this chunk at or behind the place that was asked for. */
  let backslashAt = -1;

  function endOfString(chunk: Uint8Array, from: number): number {
    let at = from;
    if (isEscaped) {
      isEscaped = false;
      at += 1;
    }
    let quoteAt = chunk.indexOf(quote, at);
    for (;;) {
      if (backslashAt < at) backslashAt = placeOf(backslash, chunk, at);
      if (quoteAt >= 0 && quoteAt < backslashAt) return quoteAt;
      if (backslashAt === Infinity) return -1;
      at = backslashAt + 2;
      isEscaped = at > chunk.length;
      if (quoteAt >= 0 && quoteAt < at) quoteAt = chunk.indexOf(quote, at);
    }
  }

  function readKey(rest: Uint8Array): void {
    heldBytes.push(rest);
    member = heldBytes.bytes > longestName ? undefined : nameOf(heldBytes.join());
    heldBytes.clear();
    isCall ||= levels.length === 1 && member === "method";
  }

  function openString(): void {
    if (isKeyNext) string = "key";
    else string = isKept() ? "kept" : "candidate";
  }

  function isKept(): boolean {
    if (isTooDeep || (member !== undefined && opaque.has(member))) return true;
    return requestsLevel > 0 || (isCall && levels.length > 1);
  }

  function readMark(byte: number): void {
    if (byte === openBrace || byte === openBracket) {
      containers += 1;
      if (levels.length === maxLevels) isTooDeep = true;
      if (isTooDeep) return;
      levels.push(byte === openBrace);
      if (member === "inputRequests" && isInResult(levels)) requestsLevel = levels.length;
      isKeyNext = byte === openBrace;
      if (byte === openBracket) member = undefined;
    } else if (byte === closeBrace || byte === closeBracket) {
      if (levels.length === requestsLevel) requestsLevel = 0;
      levels.pop();
      isKeyNext = false;
    } else if (byte === comma) {
      isKeyNext = levels.at(-1) === true;
      if (!isKeyNext) member = undefined;
    } else if (byte === colon) isKeyNext = false;
  }

  function takeHeld(): ScanStep[] {
    const steps = heldBytes.take().map((bytes): ScanStep => ({ kind: "inline", bytes }));
    return string === "candidate" ? steps : [];
  }

  return {
    get isTooWide() {
      return containers > maxResponseContainers;
    },
    scan(chunk) {
      const steps: ScanStep[] = [];
      /** The first byte that no step has yet. */
      let from = 0;
      let at = 0;
      backslashAt = -1;
      const pass = (end: number): void => {
        if (end > from) steps.push({ kind: "inline", bytes: chunk.subarray(from, end) });
        from = end;
      };
      const begin = (): void => {
        string = "long";
        steps.push({ kind: "begin", member, level: levels.length });
        for (const bytes of heldBytes.take()) steps.push({ kind: "content", bytes });
      };
      while (at < chunk.length) {
        if (string === "none") {
          const byte = chunk[at] as number;
          at += 1;
          if (byte === quote) openString();
          else readMark(byte);
          continue;
        }
        const close = endOfString(chunk, at);
        const end = close < 0 ? chunk.length : close;
        if (string === "key") {
          if (close >= 0) readKey(chunk.subarray(at, end));
          else if (heldBytes.bytes <= longestName) heldBytes.push(chunk.subarray(at, end));
        } else if (string === "candidate") {
          const isLong = heldBytes.bytes + end - at > inlineBytes;
          if (isLong || close < 0) pass(at);
          if (isLong) begin();
          else if (close < 0) {
            heldBytes.push(chunk.subarray(at, end));
            from = end;
          } else if (heldBytes.bytes > 0) steps.push({ kind: "inline", bytes: heldBytes.join() });
        }
        if (string === "long") {
          if (end > at) steps.push({ kind: "content", bytes: chunk.subarray(at, end) });
          if (close >= 0) steps.push({ kind: "end" });
          from = end;
        }
        at = end;
        if (close >= 0) {
          string = "none";
          at += 1;
        }
      }
      pass(chunk.length);
      return steps;
    },
    interrupt() {
      if (string !== "candidate" && string !== "long") return [];
      const steps: ScanStep[] = string === "long" ? [{ kind: "broken" }] : takeHeld();
      string = "kept";
      return steps;
    },
    finish() {
      const steps = takeHeld();
      levels = [];
      isTooDeep = false;
      containers = 0;
      isCall = false;
      requestsLevel = 0;
      isKeyNext = false;
      member = undefined;
      string = "none";
      isEscaped = false;
      return steps;
    },
  };
}

/** Deeper than this nothing is read by a parser of ours. */
export const maxLevels = 128;
/** More arrays and objects than this in one answer are not parsed: it takes long for each, and all hosts wait. */
export const maxResponseContainers = 250_000;
/** Longest name of a member that means something here, as it is written. */
const longestName = 256;
/** Values that the host gives back to the server as they are. */
const opaque: ReadonlySet<string> = new Set(["cursor", "nextCursor", "requestState"]);

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Around a member of a result: it, its message, and maybe a batch. */
function isInResult(levels: readonly boolean[]): boolean {
  const around = levels.slice(0, -1);
  return around.at(-1) === true && around.filter(Boolean).length === 2;
}

function placeOf(byte: number, chunk: Uint8Array, from: number): number {
  const at = chunk.indexOf(byte, from);
  return at < 0 ? Infinity : at;
}

function nameOf(written: Uint8Array): string | undefined {
  const text = new TextDecoder().decode(written);
  if (!text.includes("\\")) return text;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return undefined;
  }
}
