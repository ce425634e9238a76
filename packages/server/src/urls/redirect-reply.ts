import { SluiceError } from "@sluice/core";
import {
  formatContentType,
  formatResourceUri,
  isLoopbackHost,
  RESOURCE_SIZE_HEADER,
  RESOURCE_TYPE_HEADER,
  RESOURCE_URI_HEADER,
} from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import type { Reply } from "../http/reply.ts";
import { RedirectError } from "../provide/provider.ts";
import type { Mount } from "../storage/mount.ts";

/** Sends the client of a resource to a URL that carries its own permission, and tells what it will find there. */
export function redirectReply(
  uri: string,
  target: string,
  { contentType, size }: Pick<ObjectInfo, "contentType" | "size"> = {},
): Reply {
  const headers = [
    "Location",
    target,
    RESOURCE_URI_HEADER,
    formatResourceUri(uri),
    "Cache-Control",
    "no-store",
    "Referrer-Policy",
    "no-referrer",
    "Content-Length",
    "0",
  ];
  // a client then sees that a response of status 200 is not the resource
  if (contentType !== undefined) headers.push(RESOURCE_TYPE_HEADER, formatContentType(contentType));
  if (size !== undefined) headers.push(RESOURCE_SIZE_HEADER, String(size));
  return { status: 302, headers };
}

/** Where the bytes of a resource are, and what its provider described of it. */
interface ProvidedTarget {
  readonly url: string;
  readonly info: ObjectInfo;
}

/** The URL that a provider gave in place of bytes. Throws every other error, and `internal` for a URL that clients may not be sent to. */
export function targetOrRethrow(
  { mapper, redirectOrigins }: Mount,
  error: unknown,
): ProvidedTarget {
  if (!(error instanceof RedirectError)) throw error;
  const { url, info } = error;
  if (redirectOrigins !== "storage" && isRedirectTarget(url, redirectOrigins)) return { url, info };
  throw new SluiceError(
    "internal",
    `sluice: a provider below ${mapper.baseUri} sends clients to ${new URL(url).origin}; name that origin in redirectOrigins, over https`,
  );
}

/** True for an https URL (http on loopback) at exactly one of the allowed origins, without credentials. */
export function isRedirectTarget(target: string, origins: readonly string[]): boolean {
  const url = URL.canParse(target) ? new URL(target) : undefined;
  if (!url || url.username || url.password || !/^[\x21-\x7e]+$/.test(target)) return false;
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopbackHost(url.hostname)))
    return false;
  return origins.includes(url.origin);
}
