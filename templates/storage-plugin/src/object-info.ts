import { definedMembers } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { type Headers, text } from "./errors.ts";

/** The metadata in the headers of an answer. What the server does not say stays absent. */
export function toObjectInfo(key: string, headers: Headers): ObjectInfo {
  const size = text(headers["content-length"]);
  const lastModified = new Date(text(headers["last-modified"]) ?? "");
  return definedMembers({
    key,
    size: size === undefined ? undefined : Number(size),
    etag: strongEtag(text(headers.etag)),
    lastModified: Number.isNaN(lastModified.getTime()) ? undefined : lastModified,
    contentType: text(headers["content-type"]),
    contentEncoding: text(headers["content-encoding"]),
  });
}

/** Only a strong etag promises the same bytes; a weak one is as good as none. */
function strongEtag(header: string | undefined): string | undefined {
  return /^"([\x21\x23-\x7e]+)"$/.exec(header ?? "")?.[1];
}

/** `bytes 0-9/100` as `[0, 10)` of 100; a range of unknown size is of no use. */
export function parseContentRange(
  header: string | string[] | undefined,
): { readonly start: number; readonly end: number; readonly size: number } | undefined {
  const [, first, last, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(text(header) ?? "") ?? [];
  if (size === undefined) return undefined;
  return { start: Number(first), end: Number(last) + 1, size: Number(size) };
}
