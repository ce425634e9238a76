import { parseContentDisposition, parseMediaType, type SluiceError } from "@sluice/core";
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

/** Reads the header lines of a part, without the empty one. Throws `invalid_argument` for any that no client writes. */
export function readHeaders(block: string): PartFacts {
  const lines = block.split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = headerLine.exec(line) ?? [];
    if (name === "" || headers.has(name.toLowerCase()))
      throw malformed("a header of a part is malformed or there twice");
    headers.set(name.toLowerCase(), trimBlanks(value));
  }
  if (lines.length > maxHeaders) throw malformed("a part has too many headers");
  if (headers.has("content-range")) throw malformed("a part is a whole file, not a range of one");
  const coding = headers.get("content-transfer-encoding") ?? "binary";
  if (!/^(?:7bit|8bit|binary)$/i.test(coding)) throw malformed("a part is encoded");
  const written = headers.get("content-disposition") ?? "";
  const parsed = disposition.test(written) ? parseContentDisposition(utf8(written)) : undefined;
  const [fileName] = parsed?.fileNames ?? [];
  if (parsed?.type !== "form-data" || fileName === undefined || parsed.fieldName !== "file")
    throw malformed('every part must be a file in the field "file"');
  return { fileName: unescaped(fileName), contentType: headers.get("content-type") };
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
export function malformed(why: string): SluiceError {
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
