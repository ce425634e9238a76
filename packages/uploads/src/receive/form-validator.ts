import { parseContentDisposition, parseMediaType, SluiceError } from "@sluice/core";
import { uploadError } from "../slots/upload-error.ts";

/** What the headers of a part say. */
export interface PartFacts {
  /** As the sender wrote it. */
  readonly fileName: string;
  readonly contentType: string | undefined;
}

/** The type that a parser is given: with the boundary of the validator, and nothing to read in another way. */
export function formTypeOf(boundary: string): string {
  return `multipart/form-data; boundary="${boundary}"`;
}

/** Watches a multipart body on its way into a parser. */
export interface FormValidator {
  /** Parts whose headers have come whole, in order. */
  readonly parts: readonly PartFacts[];
  /** Throws `invalid_argument` for what is not in the strict form, before a parser sees it. */
  check(chunk: Uint8Array): void;
  /** The same at the end of the body: the closing boundary must have come. */
  end(): void;
}

const maxHeaderBytes = 2_048;
const maxHeaders = 5;
const maxAroundBytes = 4_096;

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

/**
 * Makes the validator of one body. It knows where each part begins and ends, so a parser cannot pass
 * over one unnoticed: each must be a file in the field `file`, with at most 5 headers of 2 KiB; before
 * the first and after the last there may be 4 KiB.
 */
export function createFormValidator(boundary: string, maxParts: number): FormValidator {
  const delimiter = latin1(`\r\n--${boundary}`);
  const parts: PartFacts[] = [];
  let state: "preamble" | "delimited" | "headers" | "body" | "closed" | "epilogue" = "preamble";
  // a delimiter that opens the body has no line before it
  let tail = latin1("\r\n");
  let around = 0;
  let text = "";

  /** Where what follows the next delimiter begins; `undefined` when there is none in the chunk. */
  function afterDelimiter(chunk: Uint8Array, from: number): number | undefined {
    if (tail.length > 0) {
      const seam = join(tail, chunk.subarray(from, from + delimiter.length - 1));
      const found = indexOf(seam, delimiter, 0);
      if (found >= 0) return from + found + delimiter.length - tail.length;
    }
    const found = indexOf(chunk, delimiter, from);
    return found < 0 ? undefined : found + delimiter.length;
  }

  function keepTail(chunk: Uint8Array, from: number): void {
    const rest = chunk.subarray(Math.max(from, chunk.length - delimiter.length + 1));
    tail =
      rest.length >= delimiter.length - 1
        ? rest.slice()
        : join(tail, rest).slice(-(delimiter.length - 1));
  }

  function seek(chunk: Uint8Array, from: number): number {
    const at = afterDelimiter(chunk, from);
    if (state === "preamble") {
      around += (at ?? chunk.length) - from;
      if (around > maxAroundBytes + delimiter.length)
        throw malformed("what precedes the form is too long");
    }
    if (at === undefined) {
      keepTail(chunk, from);
      return chunk.length;
    }
    state = "delimited";
    text = "";
    tail = new Uint8Array(0);
    return at;
  }

  function delimited(chunk: Uint8Array, from: number): number {
    const end = Math.min(chunk.length, from + 2 - text.length);
    text += latin1Text(chunk.subarray(from, end));
    if (text.length < 2) return end;
    if (text === "--") {
      state = "closed";
      around = 0;
    } else if (text === "\r\n") {
      if (parts.length === maxParts) throw tooMany(maxParts);
      state = "headers";
    } else throw malformed("a line begins with the boundary and goes on");
    text = "";
    return end;
  }

  /** The line of the closing boundary has blanks after it and nothing else (RFC 2046 §5.1.1). */
  function closed(chunk: Uint8Array, from: number): number {
    const byte = chunk[from]!;
    if (byte === 0x0d) state = "epilogue";
    else if (byte !== 0x20 && byte !== 0x09)
      throw malformed("the line of the closing boundary goes on");
    else if ((around += 1) > maxAroundBytes) throw malformed("what follows the form is too long");
    return state === "epilogue" ? from : from + 1;
  }

  function headers(chunk: Uint8Array, from: number): number {
    const room = maxHeaderBytes + 4 - text.length;
    const more = latin1Text(chunk.subarray(from, from + room));
    const before = text.length;
    text += more;
    const at = text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (at < 0) {
      if (text.length >= maxHeaderBytes + 4) throw malformed("the headers of a part are too long");
      return from + more.length;
    }
    parts.push(readHeaders(text.slice(0, at)));
    state = "body";
    text = "";
    // an empty file: the line break of its headers is also that of the delimiter
    tail = latin1("\r\n");
    return from + at + 4 - before;
  }

  return {
    parts,
    check(chunk) {
      let at = 0;
      while (at < chunk.length) {
        if (state === "headers") at = headers(chunk, at);
        else if (state === "delimited") at = delimited(chunk, at);
        else if (state === "closed") at = closed(chunk, at);
        else if (state === "epilogue") {
          around += chunk.length - at;
          if (around > maxAroundBytes) throw malformed("what follows the form is too long");
          return;
        } else at = seek(chunk, at);
      }
    },
    end() {
      if (state !== "closed" && state !== "epilogue")
        throw malformed("the closing boundary is missing");
      if (parts.length === 0) throw malformed("there is no file in it");
    },
  };
}

// blanks around the value are taken off afterwards: a pattern with both would try every way to share them out
const headerLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)$/;

function readHeaders(block: string): PartFacts {
  const lines = block.split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = headerLine.exec(line) ?? [];
    if (name === "" || headers.has(name.toLowerCase()))
      throw malformed("a header of a part is malformed or there twice");
    headers.set(name.toLowerCase(), value.trim());
  }
  if (lines.length > maxHeaders) throw malformed("a part has too many headers");
  if (headers.has("content-range")) throw malformed("a part is a whole file, not a range of one");
  const coding = headers.get("content-transfer-encoding") ?? "binary";
  if (!/^(?:7bit|8bit|binary)$/i.test(coding)) throw malformed("a part is encoded");
  const parsed = parseContentDisposition(utf8(headers.get("content-disposition") ?? ""));
  const [fileName] = parsed?.fileNames ?? [];
  if (parsed?.type !== "form-data" || fileName === undefined || parsed.fieldName !== "file")
    throw malformed('every part must be a file in the field "file"');
  return { fileName: unescaped(fileName), contentType: headers.get("content-type") };
}

/** Browsers write a quote and line breaks in names so (HTML, multipart/form-data encoding algorithm). */
function unescaped(name: string): string {
  return name.replaceAll(/%(?:22|0d|0a)/gi, decodeURIComponent);
}

function malformed(why: string): SluiceError {
  return uploadError("invalid_argument", why);
}

function tooMany(maxParts: number): SluiceError {
  return uploadError("too_large", `at most ${maxParts} files may come here`);
}

function indexOf(bytes: Uint8Array, needle: Uint8Array, from: number): number {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf(needle, from);
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

function latin1(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function latin1Text(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

/** Names come as UTF-8 (RFC 7578 §5.1), and as Latin-1 from some that are older. */
function utf8(text: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(latin1(text));
  } catch {
    return text;
  }
}
