import { definedMembers, formatEntityTag, formatReprDigest, trueFileName } from "@sluice/core";
import { EXTENSION_ID, type DownloadUrlMeta } from "@sluice/core/wire";
import type { Grants } from "../urls/grants.ts";
import type { DeliverResource } from "./delivery.ts";

/** Delivers a download URL in the JSON-RPC result; `cacheTtlMs` says how long clients may keep the bytes. */
export function createDownloadUrl(grants: Grants, cacheTtlMs: number | undefined): DeliverResource {
  return async ({ uri, place, info, mimeType, identity, entry }) => {
    const grant = await grants.mint(identity, place.name, info.etag);
    if (!grant) return undefined;
    entry.facts.grant = grant.id;
    await entry.conclude("issued");
    const { principal } = identity;
    const { etag, size } = info;
    const sha256 = info.digests?.sha256;
    const meta: DownloadUrlMeta = {
      auth: principal ? "bound" : "self",
      expiresAt: new Date(grant.expiresAt).toISOString(),
      name: trueFileName(place.key),
      ...definedMembers({
        etag: etag === undefined ? undefined : formatEntityTag(etag),
        digest: sha256 === undefined ? undefined : formatReprDigest(sha256),
        sessionBound: principal?.sessionId === undefined ? undefined : (true as const),
        ttlMs: cacheTtlMs,
      }),
    };
    return {
      result: {
        uri,
        mimeType,
        ...definedMembers({ size }),
        downloadUrl: grant.url,
        _meta: { [EXTENSION_ID]: meta },
      },
    };
  };
}
