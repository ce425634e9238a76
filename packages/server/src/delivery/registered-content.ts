import { decodeBase64, formatContentType, parseMediaType, SluiceError } from "@sluice/core";

/** What the author of a server answers to `resources/read`, as bytes. */
export interface RegisteredContent {
  readonly bytes: Uint8Array;
  /** Safe to send. */
  readonly mimeType: string;
}

const encoder = new TextEncoder();

/**
 * The bytes of the one content of an answer to `resources/read`: `text` as UTF-8, `blob` out of base64. Throws `unsupported` for
 * an answer that only `resources/read` can give: none or several contents, more than `maxBytes`, text with a lone surrogate.
 * Throws `corrupt` for a blob that is no base64.
 */
export function contentOf(result: unknown, maxBytes: number): RegisteredContent {
  const { contents } = Object(result) as { readonly contents?: unknown };
  const [content, ...others] = Array.isArray(contents) ? (contents as unknown[]) : [];
  const { text, blob, mimeType } = Object(content) as Readonly<Record<string, unknown>>;
  if (others.length > 0) throw readOnly("has several contents");
  if (typeof text === "string" && blob === undefined)
    return { bytes: encodeText(text, maxBytes), mimeType: textType(mimeType) };
  if (typeof blob === "string" && text === undefined)
    return { bytes: decodeBlob(blob, maxBytes), mimeType: safeType(mimeType) };
  throw readOnly("has no content");
}

function encodeText(text: string, maxBytes: number): Uint8Array {
  // no character takes less than a byte
  if (text.length > maxBytes) throw tooLarge(maxBytes);
  if (/\p{Surrogate}/u.test(text)) throw readOnly("has a lone surrogate in its text");
  const bytes = encoder.encode(text);
  if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}

function decodeBlob(blob: string, maxBytes: number): Uint8Array {
  const most = Math.ceil((maxBytes * 4) / 3) + 4;
  if (blob.length > most) throw tooLarge(maxBytes);
  const bytes = decodeBase64(blob);
  if (!bytes) throw new SluiceError("corrupt", "sluice: stream: the author's blob is no base64");
  if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}

/** Text leaves as UTF-8, whatever charset its author named. */
function textType(mimeType: unknown): string {
  if (mimeType === undefined) return "text/plain";
  const type = safeType(mimeType);
  const { essence, charset = "utf-8" } = parseMediaType(type)!;
  return charset.toLowerCase() === "utf-8" ? type : `${essence}; charset=utf-8`;
}

function safeType(mimeType: unknown): string {
  return formatContentType(typeof mimeType === "string" ? mimeType : undefined);
}

function tooLarge(maxBytes: number): SluiceError {
  return readOnly(`has more than ${maxBytes} bytes`);
}

/** The reason goes to the record of the operator; the client hears that `resources/read` has it. */
function readOnly(reason: string): SluiceError {
  return new SluiceError("unsupported", `sluice: stream: what the author registered ${reason}`);
}
