import { formatContentType, parseMediaType } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import mime from "mime";

/** Media type of an object, safe to send: what storage says, else what its name suggests. */
export function resourceType(info: ObjectInfo): string {
  return formatContentType(info.contentType ?? mime.getType(info.key) ?? undefined);
}

/** Last segment of a key. */
export function resourceName(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

const textual =
  /^text\/|[/+](?:json|xml|yaml|toml)(?:$|;)|^application\/(?:javascript|x-sh|sql|x-yaml|x-ndjson)(?:$|;)/;

/** True for a media type whose content is text in UTF-8. */
export function isTextual(mimeType: string): boolean {
  if (!textual.test(mimeType)) return false;
  const charset = parseMediaType(mimeType)?.charset;
  return charset === undefined || /^(?:utf-8|us-ascii)$/i.test(charset);
}
