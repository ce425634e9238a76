import type { SluiceError } from "@sluice/core";
import { parseMediaType, readSentDisposition } from "@sluice/core/internal";
import { uploadError } from "../slots/upload-error.ts";

/** What the headers of a part say. */
export interface PartFacts {
  /** As the sender wrote it. */
  readonly fileName: string;
  readonly contentType: string | undefined;
}

const maxHeaders = 5;

/**
 * The boundary of a `multipart/form-data` type, whatever other parameters it has. Throws `invalid_argument` unless there
 * is exactly one, in the form of RFC 2046 §5.1.1.
 */
export function boundaryOf(contentType: string): string {
  const { essence, boundary = "" } = parseMediaType(contentType) ?? {};
  if (essence !== "multipart/form-data") throw malformed("a form has the type multipart/form-data");
  if (!/^[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]$/.test(boundary))
    throw malformed("the boundary of a form has 1 to 70 characters");
  return boundary;
}

// blanks around the value are taken off afterwards: a pattern with both would try every way to share them out
const headerLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)$/;

// what other parsers read in their own ways is left out: empty parameters, blanks around "=", extended parameters but a
// file name in UTF-8 (RFC 8187), a backslash in the name of the field
const disposition =
  /^[a-z-]+(?:[\t ]*;[\t ]*(?:filename\*=utf-8'[0-9a-z-]*'(?:[!#$&+.^_`|~0-9a-z-]|%[2-9a-f][0-9a-f])+|(?!name="[^"]*\\)[!#$%&'+.^_`|~0-9a-z-]+=(?:[!#$%&'*+.^_`|~0-9a-z-]+|"(?:[^"\\]|\\.)*")))+$/i;

/** Headers that say how a part is encoded, and their values for one that is not. An empty header says nothing. */
const plainCodings = [
  ["content-transfer-encoding", /^(?:7bit|8bit|binary)?$/i],
  ["content-encoding", /^(?:identity)?$/i],
] as const;

/** Reads the header lines of a part, without the empty one. Throws `invalid_argument` for any that no client writes. */
export function readHeaders(lines: readonly string[]): PartFacts {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = headerLine.exec(line) ?? [];
    if (name === "" || headers.has(name.toLowerCase()))
      throw malformed("a header of a part is malformed or there twice");
    headers.set(name.toLowerCase(), trimBlanks(value));
  }
  if (lines.length > maxHeaders) throw malformed("a part has too many headers");
  if (headers.has("content-range")) throw malformed("a part is a whole file, not a range of one");
  for (const [name, plain] of plainCodings)
    if (!plain.test(headers.get(name) ?? "")) throw malformed("a part is encoded");
  const written = headers.get("content-disposition") ?? "";
  const parsed = disposition.test(written) ? readSentDisposition(utf8(written)) : undefined;
  const [fileName] = parsed?.fileNames ?? [];
  if (parsed?.type !== "form-data" || fileName === undefined || parsed.fieldName !== "file")
    throw malformed('every part must be a file in the field "file"');
  return { fileName: unescaped(fileName), contentType: headers.get("content-type") || undefined };
}

/** `trim` takes off more, such as U+00A0, which other parsers leave. */
function trimBlanks(text: string): string {
  const isBlank = (at: number): boolean => text[at] === " " || text[at] === "\t";
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(start)) start++;
  while (end > start && isBlank(end - 1)) end--;
  return text.slice(start, end);
}

/** Browsers write a quote and line breaks in names so (HTML, multipart/form-data encoding algorithm). */
function unescaped(name: string): string {
  return name.replaceAll(/%(?:22|0d|0a)/gi, decodeURIComponent);
}

/** The error of a form that is not in the strict form. */
function malformed(why: string): SluiceError {
  return uploadError("invalid_argument", why);
}

/** Names come as UTF-8 (RFC 7578 §5.1), and as Latin-1 from some that are older. */
function utf8(text: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(
      Uint8Array.from(text, (letter) => letter.charCodeAt(0)),
    );
  } catch {
    return text;
  }
}

/** Takes what comes in one part. */
export interface PartReceiver {
  /** A promise means that the next bytes have to wait. */
  data(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
}

/** Takes a form apart. */
export interface FormReader {
  /**
   * A promise means that the next chunk has to wait. Throws or rejects with `invalid_argument` for what is not in the
   * strict form, and with what a part throws.
   */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Ends the body: the closing boundary must have come. */
  end(): void;
  /** Gives no more bytes to any part. */
  stop(): void;
}

const maxHeaderBytes = 2_048;
const maxAroundBytes = 4_096;
/** Of the blanks between a boundary and the end of its line (RFC 2046 §5.1.1, transport-padding). */
const maxPadding = 64;
const carriageReturn = 0x0d;

/** Buffer, if the runtime has it: it searches faster. */
const { Buffer: Native } = globalThis as { readonly Buffer?: typeof Buffer };

/**
 * Makes the reader of one body; `onPart` is called as each part begins. Each part must be a file in the field `file`,
 * with at most 5 headers of 2 KiB; before the first and after the last there may be 4 KiB. The bytes of a part are
 * views of the chunks, without copies: held bytes are only counted, since they equal the beginning of the delimiter.
 */
export function createFormReader(
  boundary: string,
  maxParts: number,
  onPart: (facts: PartFacts) => PartReceiver,
): FormReader {
  /** All lines of a form end as its first one does. */
  let lineBreak = "\r\n";
  let line = "";
  let delimiter = new Uint8Array();
  const endLinesWith = (end: string): void => {
    lineBreak = end;
    line = `${end}--${boundary}`;
    delimiter = Uint8Array.from(line, (letter) => letter.charCodeAt(0));
  };
  endLinesWith(lineBreak);
  let state: "preamble" | "delimited" | "headers" | "body" | "closed" = "preamble";
  /** Bytes of a delimiter that the chunks so far end with. The start of the body counts as a line break. */
  let heldBytes = lineBreak.length;
  /**
   * How many of the held bytes do not belong to the part: this assumed line break, or the one that ends its headers.
   */
  let borrowed = lineBreak.length;
  let parts = 0;
  let part: PartReceiver | undefined;
  /** What the part is busy with. */
  let busy: Promise<void> | undefined;
  /** The last one that the part got. */
  let lastByte: number | undefined;
  let around = 0;
  let text = "";
  let isStopped = false;

  function pass(bytes: Uint8Array): void {
    if (state === "preamble") {
      around += bytes.length;
      if (around > maxAroundBytes) throw malformed("what precedes the form is too long");
    } else if (bytes.length > 0) {
      lastByte = bytes.at(-1);
      busy = part?.data(bytes);
    }
  }

  function foundDelimiter(): void {
    // one parser reads an empty file there, another one no file
    if (state === "body" && borrowed > 0)
      throw ambiguous("a line break is missing before a boundary");
    if (state === "body" && lineBreak === "\n" && lastByte === carriageReturn)
      throw ambiguous("its lines end in different ways");
    state = "delimited";
    text = "";
    heldBytes = borrowed = 0;
  }

  /** Resumes a delimiter that began in the chunk before. If it turns out to be none, the held bytes go to the part. */
  function resumeDelimiter(chunk: Uint8Array, from: number): number {
    let at = from;
    for (; heldBytes < delimiter.length; heldBytes++, at++) {
      if (at === chunk.length) return at;
      if (chunk[at] === delimiter[heldBytes]) continue;
      const bytes = delimiter.subarray(borrowed, heldBytes);
      heldBytes = borrowed = 0;
      pass(Uint8Array.from(bytes));
      return at;
    }
    foundDelimiter();
    return at;
  }

  /** Where a delimiter begins that the chunk cuts off, else the chunk's length. Its first byte is not in it again. */
  function startOfDelimiter(chunk: Uint8Array): number {
    const at = chunk.lastIndexOf(delimiter[0]!);
    const rest = chunk.length - at;
    if (at < 0 || rest >= delimiter.length) return chunk.length;
    return isDelimiter(chunk, at, rest) ? at : chunk.length;
  }

  /** Whether the first `length` bytes of a delimiter are there. */
  function isDelimiter(chunk: Uint8Array, at: number, length: number): boolean {
    for (let n = 0; n < length; n++) if (chunk[at + n] !== delimiter[n]) return false;
    return true;
  }

  /** Where the next whole delimiter is, or -1. */
  function findDelimiter(chunk: Uint8Array, from: number): number {
    if (Native)
      return Native.from(chunk.buffer, chunk.byteOffset, chunk.length).indexOf(delimiter, from);
    let at = chunk.indexOf(delimiter[0]!, from);
    while (at >= 0 && !isDelimiter(chunk, at, delimiter.length))
      at = chunk.indexOf(delimiter[0]!, at + 1);
    return at;
  }

  function seek(chunk: Uint8Array, from: number): number {
    if (heldBytes > 0) return resumeDelimiter(chunk, from);
    const found = findDelimiter(chunk, from);
    if (found >= 0) {
      pass(chunk.subarray(from, found));
      foundDelimiter();
      return found + delimiter.length;
    }
    const end = startOfDelimiter(chunk);
    heldBytes = chunk.length - end;
    pass(chunk.subarray(from, end));
    return chunk.length;
  }

  function readAfterDelimiter(chunk: Uint8Array, from: number): number {
    for (let at = from; at < chunk.length;) {
      text += latin1(chunk, at, at + 1);
      at += 1;
      if (text === "--") state = "closed";
      else if (/^[ \t]*\r?\n$/.test(text)) beginHeaders(text.endsWith("\r\n") ? "\r\n" : "\n");
      else if (!/^(?:-|[ \t]*\r?)$/.test(text) || text.length > maxPadding)
        throw malformed("a line begins with the boundary and goes on");
      else continue;
      part?.end();
      part = undefined;
      text = "";
      return at;
    }
    return chunk.length;
  }

  function beginHeaders(end: string): void {
    if (end !== lineBreak) {
      if (parts > 0 || around > 0) throw ambiguous("its lines end in different ways");
      endLinesWith(end);
    }
    state = "headers";
  }

  function readPartHeaders(chunk: Uint8Array, from: number): number {
    // checked only now that a byte of the part has come: a final boundary may lack its `--`
    if (parts === maxParts) throw tooMany(maxParts);
    const before = text.length;
    const headEnd = lineBreak + lineBreak;
    const end = Math.min(chunk.length, from + maxHeaderBytes + 4 - before);
    text += latin1(chunk, from, end);
    const at = text.indexOf(headEnd, Math.max(0, before - 3));
    if (at < 0) {
      if (text.length >= maxHeaderBytes + 4) throw malformed("the headers of a part are too long");
      return end;
    }
    if (`${lineBreak}${text.slice(0, at)}`.includes(line))
      throw ambiguous("a boundary is among the headers of a part");
    parts += 1;
    part = onPart(readHeaders(text.slice(0, at).split(lineBreak)));
    state = "body";
    text = "";
    heldBytes = borrowed = lineBreak.length;
    lastByte = undefined;
    return from + at + headEnd.length - before;
  }

  /** The line of the closing boundary has blanks after it and nothing else (RFC 2046 §5.1.1). */
  function readEpilogue(chunk: Uint8Array, from: number): number {
    if (text.length + chunk.length - from > maxAroundBytes)
      throw malformed("what follows the form is too long");
    text += latin1(chunk, from);
    const [, next] = /^[ \t]*(.?)/s.exec(text)!;
    if (next !== "" && next !== lineBreak[0])
      throw malformed("the line of the closing boundary goes on");
    // one parser stops at the closing boundary, another one reads on
    if (text.includes(line)) throw ambiguous("a boundary follows the closing one");
    return chunk.length;
  }

  const steps = {
    preamble: seek,
    body: seek,
    delimited: readAfterDelimiter,
    headers: readPartHeaders,
    closed: readEpilogue,
  };

  /** Goes on with a chunk each time that the part is done with the bytes before. */
  async function readRest(chunk: Uint8Array, from: number): Promise<void> {
    for (let at = from; ; at = steps[state](chunk, at)) {
      await busy;
      busy = undefined;
      if (isStopped || at === chunk.length) return;
    }
  }

  return {
    write(chunk) {
      for (let at = 0; at < chunk.length;) {
        at = steps[state](chunk, at);
        if (busy) return readRest(chunk, at);
      }
      return undefined;
    },
    end() {
      if (state !== "closed")
        throw malformed(`the closing boundary is missing: a form ends with --${boundary}--`);
      if (parts === 0) throw malformed("there is no file in it");
    },
    stop() {
      isStopped = true;
    },
  };
}

/** Few bytes as letters. */
function latin1(bytes: Uint8Array, from: number, end?: number): string {
  return String.fromCharCode(...bytes.subarray(from, end));
}

function ambiguous(why: string): SluiceError {
  return malformed(`the form can be read in two ways: ${why}`);
}

function tooMany(maxParts: number): SluiceError {
  return uploadError("too_large", `at most ${maxParts} files may come here`);
}
