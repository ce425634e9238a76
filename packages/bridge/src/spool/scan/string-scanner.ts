import { ByteQueue } from "@sluice/core/internal";

/** What the scanner makes of JSON text. The steps of all chunks, in order, are the whole text. */
export type ScanStep =
  /** Passes as it is. The quotes of a long string are part of it. */
  | { readonly kind: "inline"; readonly bytes: Uint8Array }
  /** A long string begins, in this member of an object at this level (1: the outermost); none in an array. */
  | {
      readonly kind: "begin";
      readonly member: string | undefined;
      readonly level: number;
      /** It lies in what has the shape that a server chose. */
      readonly isData: boolean;
    }
  /** Bytes of the long string as they are written, escapes and all. */
  | { readonly kind: "content"; readonly bytes: Uint8Array }
  | { readonly kind: "end" }
  /** It has no end: other bytes came in its middle. */
  | { readonly kind: "broken" };

type StringKind = "none" | "key" | "candidate" | "kept" | "long";

/**
 * Finds values of more than `inlineBytes` between their quotes, in JSON text that comes in chunks. Names of members are
 * never found, nor anything below 128 levels, nor what is in a call of the server or in `inputRequests` of a result,
 * which are also calls: only answers have long strings to find. It takes any text; text that is not JSON gives some
 * steps, which the parser behind refuses.
 */
export class StringScanner {
  readonly #inlineBytes: number;
  /** One entry for each open array or object: true for an object. */
  #levels: boolean[] = [];
  #isTooDeep = false;
  #containers = 0;
  #isCall = false;
  /** Level of the open `inputRequests` of a result (2026-07-28); 0 outside of one. */
  #requestsLevel = 0;
  /** Level of the open `structuredContent` or `_meta`; 0 outside of one. */
  #dataLevel = 0;
  #isKeyNext = false;
  #member: string | undefined;
  #string: StringKind = "none";
  #isEscaped = false;
  /** What has come of a candidate in earlier chunks, or of a key. */
  readonly #heldBytes = new ByteQueue();
  /** The next backslash of this chunk at or behind the place that was asked for. */
  #backslashAt = -1;

  constructor(inlineBytes: number) {
    this.#inlineBytes = inlineBytes;
  }

  /** The text so far has more arrays and objects than any parser of ours is given. */
  get isTooWide(): boolean {
    return this.#containers > maxResponseContainers;
  }

  scan(chunk: Uint8Array): ScanStep[] {
    const steps: ScanStep[] = [];
    /** The first byte that no step has yet. */
    let from = 0;
    let at = 0;
    this.#backslashAt = -1;
    const pass = (end: number): void => {
      if (end > from) steps.push({ kind: "inline", bytes: chunk.subarray(from, end) });
      from = end;
    };
    const begin = (): void => {
      this.#string = "long";
      const isData = this.#dataLevel > 0;
      steps.push({ kind: "begin", member: this.#member, level: this.#levels.length, isData });
      for (const bytes of this.#heldBytes.take()) steps.push({ kind: "content", bytes });
    };
    while (at < chunk.length) {
      if (this.#string === "none") {
        const byte = chunk[at] as number;
        at += 1;
        if (byte === quote) this.#openString();
        else this.#readMark(byte);
        continue;
      }
      const close = this.#endOfString(chunk, at);
      const end = close < 0 ? chunk.length : close;
      if (this.#string === "key") {
        if (close >= 0) this.#readKey(chunk.subarray(at, end));
        else if (this.#heldBytes.bytes <= longestName)
          this.#heldBytes.push(chunk.subarray(at, end));
      } else if (this.#string === "candidate") {
        const isLong = this.#heldBytes.bytes + end - at > this.#inlineBytes;
        if (isLong || close < 0) pass(at);
        if (isLong) begin();
        else if (close < 0) {
          this.#heldBytes.push(chunk.subarray(at, end));
          from = end;
        } else if (this.#heldBytes.bytes > 0)
          steps.push({ kind: "inline", bytes: this.#heldBytes.join() });
      }
      if (this.#string === "long") {
        if (end > at) steps.push({ kind: "content", bytes: chunk.subarray(at, end) });
        if (close >= 0) steps.push({ kind: "end" });
        from = end;
      }
      at = end;
      if (close >= 0) {
        this.#string = "none";
        at += 1;
      }
    }
    pass(chunk.length);
    return steps;
  }

  /** Bytes that are no JSON follow. A string that they lie in is malformed. */
  interrupt(): ScanStep[] {
    if (this.#string !== "candidate" && this.#string !== "long") return [];
    const steps: ScanStep[] = this.#string === "long" ? [{ kind: "broken" }] : this.#takeHeld();
    this.#string = "kept";
    return steps;
  }

  /** Gives what it held back, and is ready for the next text. */
  finish(): ScanStep[] {
    const steps = this.#takeHeld();
    this.#levels = [];
    this.#isTooDeep = false;
    this.#containers = 0;
    this.#isCall = false;
    this.#requestsLevel = 0;
    this.#dataLevel = 0;
    this.#isKeyNext = false;
    this.#member = undefined;
    this.#string = "none";
    this.#isEscaped = false;
    return steps;
  }

  #endOfString(chunk: Uint8Array, from: number): number {
    let at = from;
    if (this.#isEscaped) {
      this.#isEscaped = false;
      at += 1;
    }
    let quoteAt = chunk.indexOf(quote, at);
    for (;;) {
      if (this.#backslashAt < at) this.#backslashAt = placeOf(backslash, chunk, at);
      if (quoteAt >= 0 && quoteAt < this.#backslashAt) return quoteAt;
      if (this.#backslashAt === Infinity) return -1;
      at = this.#backslashAt + 2;
      this.#isEscaped = at > chunk.length;
      if (quoteAt >= 0 && quoteAt < at) quoteAt = chunk.indexOf(quote, at);
    }
  }

  #readKey(rest: Uint8Array): void {
    this.#heldBytes.push(rest);
    this.#member = this.#heldBytes.bytes > longestName ? undefined : nameOf(this.#heldBytes.join());
    this.#heldBytes.clear();
    this.#isCall ||= this.#levels.length === 1 && this.#member === "method";
  }

  #openString(): void {
    if (this.#isKeyNext) this.#string = "key";
    else this.#string = this.#isKept() ? "kept" : "candidate";
  }

  #isKept(): boolean {
    if (this.#isTooDeep || (this.#member !== undefined && opaque.has(this.#member))) return true;
    return this.#requestsLevel > 0 || (this.#isCall && this.#levels.length > 1);
  }

  #readMark(byte: number): void {
    if (byte === openBrace || byte === openBracket) {
      this.#containers += 1;
      if (this.#levels.length === maxLevels) this.#isTooDeep = true;
      if (this.#isTooDeep) return;
      this.#levels.push(byte === openBrace);
      if (this.#member === "inputRequests" && isInResult(this.#levels))
        this.#requestsLevel = this.#levels.length;
      if (this.#dataLevel === 0 && dataMembers.has(this.#member ?? ""))
        this.#dataLevel = this.#levels.length;
      this.#isKeyNext = byte === openBrace;
      if (byte === openBracket) this.#member = undefined;
    } else if (byte === closeBrace || byte === closeBracket) {
      if (this.#levels.length === this.#requestsLevel) this.#requestsLevel = 0;
      if (this.#levels.length === this.#dataLevel) this.#dataLevel = 0;
      this.#levels.pop();
      this.#isKeyNext = false;
    } else if (byte === comma) {
      this.#isKeyNext = this.#levels.at(-1) === true;
      if (!this.#isKeyNext) this.#member = undefined;
    } else if (byte === colon) this.#isKeyNext = false;
  }

  #takeHeld(): ScanStep[] {
    const steps = this.#heldBytes.take().map((bytes): ScanStep => ({ kind: "inline", bytes }));
    return this.#string === "candidate" ? steps : [];
  }
}

/** Deeper than this nothing is read by a parser of ours. */
export const maxLevels = 128;
/** More arrays and objects than this in one response are not parsed: it takes long for each, and all hosts wait. */
export const maxResponseContainers = 250_000;
/** Longest name of a member that means something here, as it is written. */
const longestName = 256;
/** Values that the host gives back to the server as they are. */
const opaque: ReadonlySet<string> = new Set(["cursor", "nextCursor", "requestState"]);

/** What is in these members has the shape that its server chose, and a schema may describe. */
export const dataMembers: ReadonlySet<string> = new Set(["structuredContent", "_meta"]);

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
