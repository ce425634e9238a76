import { definedMembers, formatContentDisposition } from "@sluice/core";
import { tagOf } from "../access/principal.ts";
import type { DeliverResource } from "./delivery.ts";
import { isRedirectTarget, redirectReply } from "../urls/redirect-reply.ts";
import type { Transfers } from "../limits/transfers.ts";

/** How long a URL that storage signs is good. */
const signedMs = 300_000;

/** Delivers a URL that storage signs, where it leads to one of the origins that the mount allows. */
export function createRedirect(transfers: Transfers): DeliverResource {
  return async ({ uri, place, info, mimeType, storage, identity, entry, signal }) => {
    const { key, mount } = place;
    const wanted = { expiresInMs: signedMs, ...definedMembers({ signal }) };
    const named = {
      contentType: mimeType,
      contentDisposition: formatContentDisposition(key),
    };
    // some services, such as Graph, sign URLs but cannot set the headers of their answers
    const presigned =
      (await storage.presign?.(key, { ...wanted, ...named })) ??
      (await storage.presign?.(key, wanted));
    if (!presigned || !isRedirectTarget(presigned.url, mount.redirectOrigins)) return undefined;
    await entry.conclude("issued");
    // the bytes do not pass this server: what may be fetched counts as fetched
    transfers.charge(tagOf(identity.principal), info.size ?? 0);
    const facts = definedMembers({ contentType: mimeType, size: info.size });
    return { reply: redirectReply(uri, presigned.url, facts) };
  };
}
