import { SluiceError } from "@sluice/core";
import { parseMediaType } from "@sluice/core/internal";
import { ensureSize } from "./file-fault.ts";

/** What a `data:` URI holds. */
export interface InlineFile {
  /** The `name` parameter, percent-decoded: the sender's word. */
  readonly name?: string | undefined;
  /** `type/subtype`. */
  readonly mimeType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a `data:` URI (RFC 2397) as an input of SEP-2631 §4, in base64 or percent-encoded. Its size is known from its
 * length: one that decodes to more than `maxBytes` is refused before anything is decoded.
 */
export function parseDataUri(uri: string, maxBytes: number): InlineFile {
  const comma = uri.indexOf(",");
  if (!/^data:/i.test(uri) || comma < 0) throw malformed();
  const head = uri.slice("data:".length, comma);
  const isBase64 = /;\s*base64$/i.test(head);
  const type = head.replace(/;\s*base64$/i, "");
  const mimeType = type === "" ? "text/plain" : parseMediaType(withType(type))?.essence;
  if (mimeType === undefined) throw malformed();
  const start = comma + 1;
  const size = isBase64 ? base64Size(uri, start) : percentSize(uri, start);
  ensureSize(size, maxBytes);
  const data = uri.slice(start);
  return {
    name: nameIn(type),
    mimeType,
    bytes: isBase64 ? fromBase64(data) : fromPercent(data, size),
  };
}

/** Clients that send a file in its URI name it so: `data:text/plain;name=a%20file.txt;base64,…`. */
function nameIn(type: string): string | undefined {
  const parameter = type.split(";").find((each) => /^\s*name=/i.test(each));
  const name = parameter?.slice(parameter.indexOf("=") + 1).trim();
  try {
    return name === undefined ? undefined : decodeURIComponent(name);
  } catch {
    throw malformed();
  }
}

/** RFC 2397 §2: parameters alone mean text/plain. */
function withType(type: string): string {
  return type.startsWith(";") ? `text/plain${type}` : type;
}

function base64Size(uri: string, start: number): number {
  const length = uri.length - start;
  const padding = uri.endsWith("==") ? 2 : uri.endsWith("=") ? 1 : 0;
  return Math.floor(((length - padding) * 3) / 4);
}

function percentSize(uri: string, start: number): number {
  let size = 0;
  for (let at = start; at < uri.length; at++, size++) if (uri[at] === "%") at += 2;
  return size;
}

function fromBase64(data: string): Uint8Array<ArrayBuffer> {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data)) throw malformed();
  try {
    return Uint8Array.from(atob(data), (byte) => byte.charCodeAt(0));
  } catch {
    throw malformed();
  }
}

function fromPercent(data: string, size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  for (let at = 0, to = 0; at < data.length; at++, to++) {
    const escaped = data[at] === "%" ? data.slice(at + 1, at + 3) : undefined;
    if (escaped === undefined) bytes[to] = data.charCodeAt(at);
    else if (/^[0-9a-f]{2}$/i.test(escaped)) bytes[to] = Number.parseInt(escaped, 16);
    else throw malformed();
    if (escaped !== undefined) at += 2;
    // a URI is ASCII
    else if (data.charCodeAt(at) > 0x7e) throw malformed();
  }
  return bytes;
}

function malformed(): SluiceError {
  return new SluiceError("invalid_argument", "files: the data: URI is malformed");
}
