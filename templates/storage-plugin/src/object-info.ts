import { definedMembers, type ObjectInfo, toStrongEtag } from "@sluice/storage/plugin";
import { type Headers, text } from "./errors.ts";

/** The metadata in the headers of an answer. A member that the server does not name stays absent. */
export function toObjectInfo(key: string, headers: Headers): ObjectInfo {
  const size = text(headers["content-length"]);
  const lastModified = new Date(text(headers["last-modified"]) ?? "");
  return definedMembers({
    key,
    size: size === undefined ? undefined : Number(size),
    // a weak etag is as good as none
    etag: toStrongEtag(text(headers.etag)),
    lastModified: Number.isNaN(lastModified.getTime()) ? undefined : lastModified,
    contentType: text(headers["content-type"]),
    contentEncoding: text(headers["content-encoding"]),
  });
}
