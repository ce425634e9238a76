import type { ByteRange } from "@sluice/core";
import {
  contentCodings,
  formatContentDisposition,
  formatContentRange,
  formatEntityTag,
  formatReprDigest,
  formatResourceUri,
  RESOURCE_URI_HEADER,
} from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { inlineType, isActiveType } from "./media-types.ts";

/**
 * Headers that keep a browser or a shared cache from doing harm with the bytes of a principal. RFC 9111
 * §3.5 makes `must-revalidate`, `public` and `s-maxage` permit shared caching: none of them, ever.
 */
export const shieldHeaders: readonly string[] = [
  "Cache-Control",
  "private, no-store, no-transform",
  "X-Content-Type-Options",
  "nosniff",
  "Content-Security-Policy",
  "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
  "Cross-Origin-Resource-Policy",
  "same-origin",
  "Referrer-Policy",
  "no-referrer",
  "X-Robots-Tag",
  "noindex, nofollow",
  "Vary",
  "Origin",
];

/** The same for links: any page that has the URL may show the file. */
const linkHeaders = changedHeaders({ "Cross-Origin-Resource-Policy": "cross-origin" });

/**
 * The same for what a browser shows by itself, such as images and PDF: the browser's viewers load the bytes a second
 * time, and do not work in a sandbox. Only types of the list of `inlineType` get these headers.
 */
const shownHeaders = changedHeaders({
  "Content-Security-Policy":
    "default-src 'none'; img-src 'self'; media-src 'self'; object-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "cross-origin",
});

function changedHeaders(changes: Readonly<Record<string, string>>): readonly string[] {
  return shieldHeaders.map((text, at) =>
    at % 2 === 0 ? text : (changes[shieldHeaders[at - 1]!] ?? text),
  );
}

/** What the bytes of one response are. */
export interface ByteFacts {
  /** As the client asked for it, or the canonical one. */
  readonly uri: string;
  readonly info: ObjectInfo;
  /** Media type of the content, safe to send. */
  readonly mimeType: string;
  /** Absent for the whole object. */
  readonly range?: Required<ByteRange> | undefined;
  /** Whether a further range request can work. */
  readonly rangeable: boolean;
  /** Whether types that a browser may run are sent under their name; otherwise as `application/octet-stream`. */
  readonly exactType: boolean;
  /** For a link: whether browsers save or show it. Absent for a download URL. */
  readonly disposition?: "attachment" | "inline" | undefined;
}

/** Headers of a response with bytes, or of the HEAD in its place. */
export function byteHeaders({
  uri,
  info,
  mimeType,
  range,
  rangeable,
  exactType,
  disposition,
}: ByteFacts): string[] {
  const { etag, size } = info;
  const shownType = disposition === "inline" ? inlineType(mimeType) : undefined;
  const sha256 = info.digests?.sha256;
  const headers = [
    "Content-Type",
    shownType ?? (exactType || !isActiveType(mimeType) ? mimeType : "application/octet-stream"),
    "Content-Disposition",
    formatContentDisposition(info.key, shownType ? "inline" : "attachment"),
    RESOURCE_URI_HEADER,
    formatResourceUri(uri),
    "Accept-Ranges",
    rangeable && size !== undefined ? "bytes" : "none",
  ];
  const length = range ? range.end - range.start : size;
  if (length !== undefined) headers.push("Content-Length", String(length));
  if (etag !== undefined) headers.push("ETag", formatEntityTag(etag));
  const lastModified = formatLastModified(info.lastModified, Date.now());
  if (lastModified !== undefined) headers.push("Last-Modified", lastModified);
  if (sha256 !== undefined) headers.push("Repr-Digest", formatReprDigest(sha256));
  const codings = contentCodings(info.contentEncoding).join(", ");
  if (/^[\w., -]{1,200}$/.test(codings)) headers.push("Content-Encoding", codings);
  if (range) headers.push("Content-Range", formatContentRange({ range, size }));
  headers.push(...(shownType ? shownHeaders : disposition ? linkHeaders : shieldHeaders));
  return headers;
}

/** Headers of a 304: RFC 9110 §15.4.5 leaves out what describes bytes, and some clients refuse it. */
export function unchangedHeaders({ etag }: ObjectInfo, isLink: boolean): string[] {
  const tag = etag === undefined ? [] : ["ETag", formatEntityTag(etag)];
  return [...tag, ...(isLink ? linkHeaders : shieldHeaders)];
}

/** RFC 9110 §8.8.2.1: never later than the answer itself. A time before 1970 is one that storage does not know. */
function formatLastModified(time: Date | undefined, now: number): string | undefined {
  const ms = Math.min(time?.getTime() ?? Number.NaN, now);
  return ms > 0 ? new Date(ms).toUTCString() : undefined;
}
