/** The bytes that no JSON string may have. Put into the text again, they make the parser behind refuse it. */
export class MalformedString extends Error {
  readonly written: Uint8Array;
  constructor(written: Uint8Array) {
    super("malformed string");
    this.written = written;
  }
}

/** What is between the quotes of a JSON string, as UTF-8. */
export class Unescaper {
  /** What has come of an escape: a backslash, then up to five characters. */
  #escape: number[] = [];
  #high: number | undefined;
  #out: Uint8Array = new Uint8Array();
  #filledBytes = 0;

  /**
   * Decodes the next bytes. Throws {@link MalformedString} for what JSON forbids in a string. A surrogate alone becomes
   * U+FFFD, as in any UTF-8; other bytes that are no UTF-8 pass. The bytes are good until the next call.
   */
  decode(written: Uint8Array): Uint8Array {
    if (this.#escape.length === 0 && this.#high === undefined && !written.includes(backslash)) {
      ensurePrintable(written, 0, written.length);
      return written;
    }
    // an escape has at least as many bytes as what it means, but for the surrogate of an earlier chunk
    if (this.#out.length < written.length + 8) this.#out = new Uint8Array(written.length + 8);
    this.#filledBytes = 0;
    for (let at = 0; at < written.length;) {
      if (this.#escape.length > 0) {
        this.#readEscape(written[at] as number);
        at += 1;
        continue;
      }
      const backslashAt = written.indexOf(backslash, at);
      const end = backslashAt < 0 ? written.length : backslashAt;
      if (end > at) {
        ensurePrintable(written, at, end);
        this.#endSurrogate();
        this.#out.set(written.subarray(at, end), this.#filledBytes);
        this.#filledBytes += end - at;
      }
      if (backslashAt >= 0) this.#escape = [backslash];
      at = end + 1;
    }
    return this.#out.subarray(0, this.#filledBytes);
  }

  /** Gives what it held back. */
  finish(): Uint8Array {
    if (this.#escape.length > 0) throw new MalformedString(Uint8Array.from(this.#escape));
    this.#out = new Uint8Array(8);
    this.#filledBytes = 0;
    this.#endSurrogate();
    return this.#out.subarray(0, this.#filledBytes);
  }

  #put(...bytes: readonly number[]): void {
    for (const byte of bytes) this.#out[this.#filledBytes++] = byte;
  }

  #putPoint(point: number): void {
    if (point < 0x80) this.#put(point);
    else if (point < 0x800) this.#put(0xc0 | (point >> 6), tail(point));
    else if (point < 0x1_0000) this.#put(0xe0 | (point >> 12), tail(point >> 6), tail(point));
    else this.#put(0xf0 | (point >> 18), tail(point >> 12), tail(point >> 6), tail(point));
  }

  #endSurrogate(): void {
    if (this.#high !== undefined) this.#putPoint(replacement);
    this.#high = undefined;
  }

  #putUnit(unit: number): void {
    if (this.#high !== undefined && isLow(unit)) {
      this.#putPoint(0x1_0000 + ((this.#high - 0xd800) << 10) + (unit - 0xdc00));
      this.#high = undefined;
      return;
    }
    this.#endSurrogate();
    if (isHigh(unit)) this.#high = unit;
    else this.#putPoint(isLow(unit) ? replacement : unit);
  }

  #readEscape(byte: number): void {
    this.#escape.push(byte);
    if (this.#escape.length === 2 && byte !== letterU) {
      const character = meanings.get(byte);
      if (character === undefined) throw new MalformedString(Uint8Array.from(this.#escape));
      this.#endSurrogate();
      this.#put(character);
      this.#escape = [];
    } else if (this.#escape.length > 2) {
      if (hexValue(byte) < 0) throw new MalformedString(Uint8Array.from(this.#escape));
      if (this.#escape.length < 6) return;
      this.#putUnit(this.#escape.slice(2).reduce((unit, digit) => unit * 16 + hexValue(digit), 0));
      this.#escape = [];
    }
  }
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
