/** What is between the quotes of a JSON string, as UTF-8. */
interface Unescaper {
  /**
   * Decodes the next bytes. Throws {@link MalformedString} for what JSON forbids in a string. A surrogate alone becomes
   * U+FFFD, as in any UTF-8; other bytes that are no UTF-8 pass. The bytes are good until the next call.
   */
  decode(written: Uint8Array): Uint8Array;
  /** Gives what it held back. */
  finish(): Uint8Array;
}

/** The bytes that no JSON string may have. Put into the text again, they make the parser behind refuse it. */
export class MalformedString extends Error {
  readonly written: Uint8Array;
  constructor(written: Uint8Array) {
    super("malformed string");
    this.written = written;
  }
}

/** Makes a decoder for one string, whose chunks may end anywhere. */
export function createUnescaper(): Unescaper {
  /** What has come of an escape: a backslash, then up to five characters. */
  let escape: number[] = [];
  let high: number | undefined;
  let out: Uint8Array = new Uint8Array();
  let filledBytes = 0;

  function put(...bytes: readonly number[]): void {
    for (const byte of bytes) out[filledBytes++] = byte;
  }

  function putPoint(point: number): void {
    if (point < 0x80) put(point);
    else if (point < 0x800) put(0xc0 | (point >> 6), tail(point));
    else if (point < 0x1_0000) put(0xe0 | (point >> 12), tail(point >> 6), tail(point));
    else put(0xf0 | (point >> 18), tail(point >> 12), tail(point >> 6), tail(point));
  }

  function endSurrogate(): void {
    if (high !== undefined) putPoint(replacement);
    high = undefined;
  }

  function putUnit(unit: number): void {
    if (high !== undefined && isLow(unit)) {
      putPoint(0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
      high = undefined;
      return;
    }
    endSurrogate();
    if (isHigh(unit)) high = unit;
    else putPoint(isLow(unit) ? replacement : unit);
  }

  function readEscape(byte: number): void {
    escape.push(byte);
    if (escape.length === 2 && byte !== letterU) {
      const meant = meanings.get(byte);
      if (meant === undefined) throw new MalformedString(Uint8Array.from(escape));
      endSurrogate();
      put(meant);
      escape = [];
    } else if (escape.length > 2) {
      if (hexValue(byte) < 0) throw new MalformedString(Uint8Array.from(escape));
      if (escape.length < 6) return;
      putUnit(escape.slice(2).reduce((unit, digit) => unit * 16 + hexValue(digit), 0));
      escape = [];
    }
  }

  return {
    decode(written) {
      if (escape.length === 0 && high === undefined && !written.includes(backslash)) {
        ensurePrintable(written, 0, written.length);
        return written;
      }
      // an escape has at least as many bytes as what it means, but for the surrogate of an earlier chunk
      if (out.length < written.length + 8) out = new Uint8Array(written.length + 8);
      filledBytes = 0;
      for (let at = 0; at < written.length;) {
        if (escape.length > 0) {
          readEscape(written[at] as number);
          at += 1;
          continue;
        }
        const found = written.indexOf(backslash, at);
        const end = found < 0 ? written.length : found;
        if (end > at) {
          ensurePrintable(written, at, end);
          endSurrogate();
          out.set(written.subarray(at, end), filledBytes);
          filledBytes += end - at;
        }
        if (found >= 0) escape = [backslash];
        at = end + 1;
      }
      return out.subarray(0, filledBytes);
    },
    finish() {
      if (escape.length > 0) throw new MalformedString(Uint8Array.from(escape));
      out = new Uint8Array(8);
      filledBytes = 0;
      endSurrogate();
      return out.subarray(0, filledBytes);
    },
  };
}

const backslash = 0x5c;
const letterU = 0x75;
const replacement = 0xfffd;
const meanings: ReadonlyMap<number, number> = new Map(
  [
    ['"', '"'],
    ["\\", "\\"],
    ["/", "/"],
    ["b", "\b"],
    ["f", "\f"],
    ["n", "\n"],
    ["r", "\r"],
    ["t", "\t"],
  ].map(([written, meant]) => [written!.charCodeAt(0), meant!.charCodeAt(0)]),
);

function ensurePrintable(bytes: Uint8Array, from: number, to: number): void {
  for (let at = from; at < to; at += 1)
    if ((bytes[at] as number) < 0x20) throw new MalformedString(bytes.slice(at, at + 1));
}

function tail(point: number): number {
  return 0x80 | (point & 0x3f);
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}

function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
