import { SluiceError } from "@sluice/core";
import { definedMembers, parseMediaType } from "@sluice/core/internal";

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
