import { fieldText } from "./field-text.ts";

/** A parsed `ETag` (RFC 9110 §8.8.3). */
export interface EntityTag {
  /** The opaque part with its quotes, without `W/`. */
  readonly tag: string;
  /** Strong: equal tags mean equal bytes. Only strong tags allow resuming. */
  readonly strong: boolean;
}

/**
 * A strong `ETag` header from a storage etag, which has no quotes. Characters that the header
 * cannot hold, and `%`, are percent-encoded, so different etags stay different.
 */
export function formatEntityTag(etag: string): string {
  return `"${etag.replace(/[^\x21\x23\x24\x26-\x7e]+/gu, percentEncode)}"`;
}

/** Reads an `ETag` header; `undefined` when it is absent or malformed. */
export function parseEntityTag(header: string | null | undefined): EntityTag | undefined {
  const tags = parseList(header);
  return tags?.length === 1 ? tags[0] : undefined;
}

/**
 * Tells whether a `Range` may be honoured: there is no `If-Range`, or it strongly equals `tag`
 * (RFC 9110 §13.1.5). A date never does: Sluice gives no strong dates. `tag` is the object's
 * formatted strong tag, `undefined` when it has none.
 */
export function matchesIfRange(
  header: string | null | undefined,
  tag: string | undefined,
): boolean {
  if (header === null || header === undefined) return true;
  const parsed = parseEntityTag(header);
  return parsed !== undefined && parsed.strong && parsed.tag === tag;
}

/**
 * Tells whether the precondition `If-Match` holds: it is absent, `*`, or names `tag` strongly
 * (RFC 9110 §13.1.1). Otherwise answer 412. An empty field names nothing.
 */
export function matchesIfMatch(
  header: string | null | undefined,
  tag: string | undefined,
): boolean {
  if (header === null || header === undefined || header.trim() === "*") return true;
  return parseList(header)?.some((given) => given.strong && given.tag === tag) ?? false;
}

/**
 * Tells whether `If-None-Match` names the object, so that the response is 304: it is `*`, or names
 * `tag` by weak comparison (RFC 9110 §13.1.2). Absent means no.
 */
export function matchesIfNoneMatch(
  header: string | null | undefined,
  tag: string | undefined,
): boolean {
  if (header === null || header === undefined) return false;
  if (header.trim() === "*") return true;
  return parseList(header)?.some((given) => given.tag === tag) ?? false;
}

/** A list of entity tags; `undefined` when any part of it is malformed. */
function parseList(header: string | null | undefined): EntityTag[] | undefined {
  const element = /(?:(W\/)?("[\x21\x23-\x7e\x80-\xff]*"))?[\t ]*(?:,[\t ]*|$)/y;
  const text = fieldText(header).replace(/^[\t ]+/, "");
  const tags: EntityTag[] = [];
  while (element.lastIndex < text.length) {
    const match = element.exec(text);
    if (!match) return undefined;
    if (match[2] !== undefined) tags.push({ tag: match[2], strong: match[1] === undefined });
  }
  return tags;
}

function percentEncode(text: string): string {
  let encoded = "";
  for (const byte of new TextEncoder().encode(text))
    encoded += `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return encoded;
}
