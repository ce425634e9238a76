import { formatContentType, parseMediaType } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { typeOfName } from "./type-names.ts";

/** How many bytes from the start of a resource tell what it is. */
export const headBytes: number = 8_192;

/**
 * Media type of an object where its metadata tell it, safe to send: what storage says, else what its name says.
 * `undefined` if only the content tells: storage names no type or a generic one, and the name is unknown or has two
 * meanings.
 */
export function knownType(info: ObjectInfo): string | undefined {
  const stored = storedType(info);
  if (stored !== undefined) return stored;
  const { text, binary } = typeOfName(info.key);
  return text === binary ? text : undefined;
}

/** Media type of an object, safe to send; `isText` counts where only the content tells. */
export function resourceType(info: ObjectInfo, isText: boolean): string {
  const namedType = knownType(info);
  if (namedType !== undefined) return namedType;
  const { text = "text/plain", binary } = typeOfName(info.key);
  return isText ? text : (binary ?? formatContentType(info.contentType));
}

/** True for a media type whose content is text in UTF-8. */
export function isTextual(mimeType: string): boolean {
  if (!textual.test(mimeType)) return false;
  const charset = parseMediaType(mimeType)?.charset;
  return charset === undefined || /^(?:utf-8|us-ascii)$/i.test(charset);
}

/**
 * Whether the content is text, as far as its first bytes tell. A type stored with the object decides. A type guessed
 * from the file name does not.
 */
export function beginsAsText(info: ObjectInfo, head: Uint8Array): boolean {
  return storedAsText(info) ?? (!hasBinaryBytes(head) && !isPdf(head) && isUtf8Start(head));
}

/** Whether the content is text by the type that storage names; `undefined` if that does not tell. */
export function storedAsText(info: ObjectInfo): boolean | undefined {
  const stored = storedType(info);
  if (stored === undefined) return undefined;
  return isTextual(stored) || (neverText.test(stored) ? false : undefined);
}

const textual =
  /^text\/|[/+](?:json|xml|yaml|toml)(?:$|;)|^application\/(?:javascript|x-sh|sql|x-yaml|x-ndjson)(?:$|;)/;

/** Stored types that are not text whatever the bytes look like; text in another charset is among them. */
const neverText = /^(?:text|audio|font|image|video)\/|^application\/pdf$/;

/** The type that storage names, where it says what the content is. */
function storedType({ key, contentType }: ObjectInfo): string | undefined {
  const essence = parseMediaType(contentType)?.essence;
  if (essence === undefined || generic.has(essence)) return undefined;
  // uploaders also guess from names
  if (essence === "video/mp2t" && typeOfName(key).binary === essence) return undefined;
  return formatContentType(contentType);
}

/** What services and uploaders write for an object whose type they do not know. */
const generic: ReadonlySet<string> = new Set([
  "application/binary",
  "application/octet-stream",
  "application/unknown",
  "application/x-octet-stream",
  "binary/octet-stream",
  "unknown/unknown",
]);

/** True for bytes that no text has. */
export function hasBinaryBytes(bytes: Uint8Array): boolean {
  return bytes.some((byte) => isBinary[byte]);
}

/** The binary data bytes of WHATWG MIME Sniffing §3. */
const isBinary: readonly boolean[] = Array.from(
  { length: 256 },
  (_, byte) => byte < 0x20 && ![0x09, 0x0a, 0x0c, 0x0d, 0x1b].includes(byte),
);

/** A PDF may be written in ASCII alone. */
export function isPdf(head: Uint8Array): boolean {
  return [0x25, 0x50, 0x44, 0x46, 0x2d].every((byte, at) => head[at] === byte);
}

/** True for UTF-8 whose last character may be cut. */
function isUtf8Start(head: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    return true;
  } catch {
    return false;
  }
}
