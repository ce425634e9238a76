import { formatContentType } from "@sluice/core";
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
