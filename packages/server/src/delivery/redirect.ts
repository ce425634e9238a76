import { definedMembers, formatContentDisposition, formatResourceUri } from "@sluice/core";
import { RESOURCE_URI_HEADER } from "@sluice/core/wire";
import { tagOf } from "../access/principal.ts";
import { isLoopbackHost } from "../options/endpoint.ts";
import { resourceName } from "../resources/resource-type.ts";
import type { DeliverResource } from "./delivery.ts";
import type { Transfers } from "./transfers.ts";

/** How long a URL that storage signs is good. */
const signedMs = 300_000;

/** Delivers a URL that storage signs, where it leads to one of the origins that the mount allows. */
export function createRedirect(transfers: Transfers): DeliverResource {
  return async ({ uri, place, info, mimeType, storage, identity, entry, signal }) => {
    const { key, mount } = place;
    const wanted = { expiresInMs: signedMs, ...definedMembers({ signal }) };
    const named = {
      contentType: mimeType,
      contentDisposition: formatContentDisposition(resourceName(key)),
    };
    // some services, such as Graph, sign URLs but cannot set the headers of their answers
    const presigned =
      (await storage.presign?.(key, { ...wanted, ...named })) ??
      (await storage.presign?.(key, wanted));
    if (!presigned || !isRedirectTarget(presigned.url, mount.redirectOrigins)) return undefined;
    await entry.conclude("issued");
    // the bytes do not pass this server: what may be fetched counts as fetched
    transfers.charge(tagOf(identity.principal), info.size ?? 0);
    const headers = [
      "Location",
      presigned.url,
      RESOURCE_URI_HEADER,
      formatResourceUri(uri),
      "Cache-Control",
      "no-store",
      "Referrer-Policy",
      "no-referrer",
      "Content-Length",
      "0",
    ];
    return { reply: { status: 302, headers } };
  };
}

/** True for an https URL (http on loopback) at exactly one of the allowed origins, without credentials. */
function isRedirectTarget(target: string, origins: readonly string[]): boolean {
  const url = URL.canParse(target) ? new URL(target) : undefined;
  if (!url || url.username || url.password || !/^[\x21-\x7e]+$/.test(target)) return false;
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopbackHost(url.hostname)))
    return false;
  return origins.includes(url.origin);
}
