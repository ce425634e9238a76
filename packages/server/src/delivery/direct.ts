import { definedMembers, discardSource, SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import { orDiscard, type AuthorizedStorage } from "../storage/authorized-storage.ts";
import { OpenedKept } from "../storage/opened-kept.ts";
import { tagOf, type Identity } from "../access/principal.ts";
import type { Grants } from "../urls/grants.ts";
import { byteHeaders, type ByteFacts } from "../http/byte-headers.ts";
import { isProtocolType } from "../http/media-types.ts";
import type { Mount } from "../storage/mount.ts";
import type { Place } from "../storage/mounts.ts";
import { ensureFits, type DeliverResource, type ResourceDelivery } from "./delivery.ts";
import type { Transfers } from "../limits/transfers.ts";

interface DirectOptions {
  readonly transfers: Transfers;
  readonly grants: Grants;
  readonly onError: (error: unknown) => void;
}

/** A resource whose bytes can be opened; what else is known of its storage makes no difference. */
export interface DirectDelivery extends Omit<ResourceDelivery, "place" | "storage"> {
  readonly place: Omit<Place, "mount"> & { readonly mount: Pick<Mount, "limiter"> };
  readonly storage: Pick<AuthorizedStorage, "open" | "findKept" | "typeOf">;
}

/** Delivers the bytes in the answer itself, with a download URL in `Link` from which a client can resume. */
export function createDirect({
  transfers,
  grants,
  onError,
}: DirectOptions): (delivery: DirectDelivery) => ReturnType<DeliverResource> {
  const keptHeaders = createKeptHeaders();
  return async (delivery) => {
    const { uri, place, info, storage, client, identity, address, entry, signal } = delivery;
    const { key, name, mount } = place;
    const release = transfers.take(tagOf(identity.principal), address, mount.limiter);
    try {
      // looked for now: choosing the way may have taken long. A client that has gone is left to storage
      const kept = signal?.aborted ? undefined : storage.findKept?.();
      const opened = kept
        ? new OpenedKept(kept)
        : await storage.open(key, definedMembers({ signal }));
      const { etag } = opened.info;
      return await orDiscard(opened, async () => {
        // the object may have grown since it was described
        ensureFits(opened.info, client);
        const isDescribed = etag === info.etag && opened.info.contentType === info.contentType;
        const mimeType = isDescribed ? delivery.mimeType : await storage.typeOf(opened.info);
        if (isProtocolType(mimeType)) {
          await discardSource(opened);
          release();
          return undefined;
        }
        const facts = {
          uri,
          info: opened.info,
          mimeType,
          rangeable: etag !== undefined && grants.servesParts,
          exactType: true,
        };
        const headers = kept ? keptHeaders(facts) : byteHeaders(facts);
        const grant = await mintLink({ grants, onError }, identity, { name, etag });
        if (grant) {
          entry.facts.grant = grant.id;
          headers.push("Link", `<${grant.url}>; rel="stream"`);
        }
        await entry.admit();
        const transfer = transfers.of(opened, { entry, release });
        return { reply: { status: 200, headers, transfer } };
      });
    } catch (error) {
      release();
      throw error;
    }
  };
}

/** Makes what remembers the headers of the last answer with each object in memory: another version has another `info`. */
function createKeptHeaders(): (facts: ByteFacts) => string[] {
  const last = new WeakMap<ObjectInfo, { readonly facts: ByteFacts; readonly headers: string[] }>();
  return (facts) => {
    const { uri, info, mimeType } = facts;
    let known = last.get(info);
    if (known?.facts.uri !== uri || known.facts.mimeType !== mimeType)
      last.set(info, (known = { facts, headers: byteHeaders(facts) }));
    return known.headers.slice();
  };
}

/** A URL from which the download can resume. The bytes go without one while the state store keeps none. */
async function mintLink(
  { grants, onError }: Pick<DirectOptions, "grants" | "onError">,
  identity: Identity,
  { name, etag }: { readonly name: string; readonly etag: string | undefined },
): ReturnType<Grants["mint"]> {
  try {
    return await grants.mint(identity, name, etag);
  } catch (error) {
    if (!SluiceError.is(error)) throw error;
    if (error.code === "unavailable") onError(error);
    else if (error.code !== "throttled") throw error;
    return undefined;
  }
}
