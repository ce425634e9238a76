import { SluiceError } from "@sluice/core";
import { definedMembers, parseMediaType } from "@sluice/core/internal";

/** The boundary in a `Content-Type` of `multipart/mixed`; `undefined` for other types, and unless there is exactly one. */
export function boundaryOf(contentType: string | null): string | undefined {
  const type = parseMediaType(contentType);
  return type?.essence === "multipart/mixed" ? type.boundary : undefined;
}

/** The delimiter of a multipart message (RFC 2046 §5.1.1) and how to find it. */
interface Delimiter {
  /** CRLF, two hyphens and the boundary. */
  readonly bytes: Uint8Array;
  /** Where it begins first in `bytes`; -1 when it is not there as a whole. */
  indexIn(bytes: Uint8Array): number;
  /** Where an unfinished one begins at the end of `bytes`; their length when none does. */
  tailIn(bytes: Uint8Array): number;
}

const grammar = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/;

/** The delimiter of a boundary. Throws `protocol` unless that has 1 to 70 characters of RFC 2046, the last no space. */
export function createDelimiter(boundary: string): Delimiter {
  if (!grammar.test(boundary)) throw malformed("a boundary that RFC 2046 forbids");
  const bytes = new TextEncoder().encode(`\r\n--${boundary}`);
  const last = bytes.length - 1;
  // how far the next place to look at is, by the byte that lies under the last one of the delimiter
  const skip = new Uint8Array(256).fill(bytes.length);
  for (let at = 0; at < last; at += 1) skip[bytes[at]!] = last - at;

  function matches(text: Uint8Array, from: number, length: number): boolean {
    for (let at = 0; at < length; at += 1) if (text[from + at] !== bytes[at]) return false;
    return true;
  }

  return {
    bytes,
    // compared from the front, where the only CR is: so it looks at no byte more than three times
    indexIn(text) {
      for (let at = 0; at + last < text.length; at += skip[text[at + last]!]!)
        if (text[at + last] === bytes[last] && matches(text, at, last)) return at;
      return -1;
    },
    tailIn(text) {
      const from = text.indexOf(cr, Math.max(0, text.length - last));
      for (let at = from; at >= 0; at = text.indexOf(cr, at + 1))
        if (matches(text, at, text.length - at)) return at;
      return text.length;
    },
  };
}

const cr = 0x0d;

/** Copies two pieces into one: a delimiter may lie across them. */
export function joinBytes(first: Uint8Array, second: Uint8Array): Uint8Array {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

/** A boundary for one message: 192 random bits. The writer looks for it in content that is made later. */
export function randomBoundary(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(24));
  return `sluice-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The headers of a part. */
export interface PartHeaders {
  /** `type/subtype` in lower case; `text/plain` where it is absent (RFC 2046 §5.1). */
  readonly mimeType: string;
  /** `Content-ID` without angle brackets; absent if the field is not an id. */
  readonly contentId?: string;
  /** `Content-Length` in bytes. */
  readonly contentLength?: number;
}

/** Maximum bytes of the head of a part, and maximum fields in it. */
export const maxHeadBytes = 2_048;
const maxFields = 5;

// blanks around the value are trimmed later: a pattern for them would try every way to share them out
const field = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e]*)$/;

/** Reads the head of a part, its lines without the empty one at the end. Throws `protocol`. */
export function parsePartHeaders(head: Uint8Array): PartHeaders {
  const text = new TextDecoder("latin1").decode(head);
  const lines = text === "" ? [] : text.split("\r\n");
  if (lines.length > maxFields) throw malformed(`more than ${maxFields} header fields`);
  const fields = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = field.exec(line) ?? [];
    if (name === undefined || value === undefined) throw malformed("a malformed header field");
    if (fields.has(name.toLowerCase())) throw malformed("a duplicate header field");
    fields.set(name.toLowerCase(), value.trim());
  }
  if (fields.has("content-encoding")) throw malformed("a content coding");
  const encoding = fields.get("content-transfer-encoding") ?? "binary";
  if (!/^(?:binary|8bit|7bit)$/i.test(encoding)) throw malformed("a transfer encoding");
  const contentId = readContentId(fields.get("content-id"));
  const contentLength = readLength(fields.get("content-length"));
  const mimeType = readType(fields.get("content-type"));
  return definedMembers({ mimeType, contentId, contentLength });
}

function readType(value: string | undefined): string {
  if (value === undefined) return "text/plain";
  const type = parseMediaType(value);
  if (!type) throw malformed("a malformed Content-Type");
  return type.essence;
}

/** The brackets may be missing: the RFC writes `<streamId>`, which reads as a placeholder too. */
function readContentId(value = ""): string | undefined {
  const [, bracketed, bare] =
    /^(?:<([\x21-\x3b\x3d\x3f-\x7e]{1,256})>|([\x21-\x3b\x3d\x3f-\x7e]{1,256}))$/.exec(value) ?? [];
  return bracketed ?? bare;
}

function readLength(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,16}$/.test(value) || !Number.isSafeInteger(Number(value)))
    throw malformed("a malformed Content-Length");
  return Number(value);
}

/** The error for a message that keeps no multipart rule. */
export function malformed(what: string): SluiceError {
  return new SluiceError("protocol", `multipart: the peer sent ${what}`);
}
