import { decodeBase64, encodeBase64 } from "../bytes/base64.ts";
import { fieldText } from "../headers/field-text.ts";

/**
 * A resource URI as the value of `MCP-Resource-Uri`: as it is when it is visible ASCII, otherwise
 * as `=?base64?…?=` over its UTF-8, the form MCP 2026-07-28 gives header values.
 */
export function formatResourceUri(uri: string): string {
  if (/^[\x21-\x7e]+$/.test(uri) && !sentinel.test(uri)) return uri;
  return `=?base64?${encodeBase64(new TextEncoder().encode(uri))}?=`;
}

/** The URI of an `MCP-Resource-Uri` header; `undefined` when it is absent or malformed. */
export function parseResourceUri(header: string | null | undefined): string | undefined {
  const text = fieldText(header).trim();
  const encoded = sentinel.exec(text)?.[1];
  if (encoded === undefined) return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
  const bytes = decodeBase64(encoded);
  if (!bytes) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * True when two URIs name the same resource: they differ at most in which characters are
 * percent-encoded. An encoded delimiter (`%2F`, `%3F`, `%23`) is another character than a bare one.
 */
export function isSameResource(one: string, other: string): boolean {
  if (one === other) return true;
  // delimiters stay where they are, so the parts between them can be compared one by one
  const [parts, others] = [one.split(/([/?#])/), other.split(/([/?#])/)];
  return (
    parts.length === others.length &&
    parts.every((part, at) => part === others[at] || spellOut(part) === spellOut(others[at]!))
  );
}

/** Everything encoded that can be; an invalid encoding stays as it is. */
function spellOut(part: string): string {
  try {
    return encodeURIComponent(decodeURIComponent(part));
  } catch {
    return part;
  }
}

const sentinel = /^=\?base64\?(.*)\?=$/;
