import { SluiceError } from "@sluice/core";
import {
  type ClientStreaming,
  definedMembers,
  type DeliveryMode,
  discardSource,
  type DownloadUrlMeta,
  type DownloadUrlResult,
  EXTENSION_ID,
  formatContentDisposition,
  formatEntityTag,
  formatReprDigest,
  trueFileName,
} from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import { tagOf, type Identity } from "../access/principal.ts";
import type { AuditEntry } from "../audit/audit.ts";
import { byteHeaders } from "../http/byte-headers.ts";
import { isProtocolType } from "../http/media-types.ts";
import type { Reply } from "../http/reply.ts";
import type { Transfers } from "../limits/transfers.ts";
import { useOrDiscard, type AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { Mount } from "../storage/mount.ts";
import type { Place } from "../storage/mounts.ts";
import type { Grants, MintedGrant } from "../urls/grants.ts";
import { isRedirectTarget, redirectReply } from "../urls/redirect-reply.ts";

/** How long a URL that storage signs is valid. */
const signedUrlMs = 300_000;

/** A resource on its way to one client. */
export interface ResourceDelivery {
  /** As the client asked for it. */
  readonly uri: string;
  readonly place: Place;
  readonly info: ObjectInfo;
  readonly mimeType: string;
  readonly storage: AuthorizedStorage;
  readonly identity: Identity;
  readonly address: string | undefined;
  readonly client: ClientStreaming;
  readonly entry: AuditEntry;
  readonly signal: AbortSignal | undefined;
}

/** Bytes or a redirect, which leave in place of the SDK's response, or the JSON-RPC result. */
export type StreamAnswer =
  | { readonly reply: Reply; readonly result?: never }
  | { readonly result: DownloadUrlResult & Record<string, unknown>; readonly reply?: never };

/** Delivers a resource in one mode; `undefined` if that mode is impossible after all. */
type DeliverResource = (delivery: ResourceDelivery) => Promise<StreamAnswer | undefined>;

/** Throws `too_large` for an object that is larger than the client takes. */
export function ensureFits({ size }: ObjectInfo, { maxStreamSize }: ClientStreaming): void {
  if (size !== undefined && maxStreamSize !== undefined && size > maxStreamSize)
    throw new SluiceError("too_large", "sluice: stream: larger than the client takes", { size });
}

/**
 * What `direct` needs: less than a whole `ResourceDelivery`, so that `streamRegistered` can use it for content that
 * lies in no storage.
 */
export interface DirectDelivery extends Omit<ResourceDelivery, "place" | "storage"> {
  readonly place: Omit<Place, "mount"> & { readonly mount: Pick<Mount, "limiter"> };
  readonly storage: Pick<AuthorizedStorage, "open" | "typeOf">;
}

interface ModesOptions {
  readonly transfers: Transfers;
  readonly grants: Grants;
  /** How long clients may keep the bytes of a download URL. */
  readonly cacheTtlMs: number | undefined;
  readonly onError: (error: unknown) => void;
}

/** The delivery modes of the protocol: one method for each. */
export class DeliveryModes implements Readonly<Record<DeliveryMode, DeliverResource>> {
  readonly #options: ModesOptions;

  constructor(options: ModesOptions) {
    this.#options = options;
  }

  /** Delivers the bytes in the answer itself, with a download URL in `Link` from which a client can resume. */
  async direct(delivery: DirectDelivery): Promise<StreamAnswer | undefined> {
    const { transfers, grants } = this.#options;
    const { uri, place, info, storage, client, identity, address, entry, signal } = delivery;
    const { key, name, mount } = place;
    const release = transfers.take(tagOf(identity.principal), address, mount.limiter);
    try {
      const opened = await storage.open(key, definedMembers({ signal }));
      const { etag } = opened.info;
      return await useOrDiscard(opened, async () => {
        // the object may have grown since it was described
        ensureFits(opened.info, client);
        const isUnchanged = etag === info.etag && opened.info.contentType === info.contentType;
        const mimeType = isUnchanged ? delivery.mimeType : await storage.typeOf(opened.info);
        // the type has changed since `describe`: a client could take these bytes for the JSON-RPC response
        if (isProtocolType(mimeType)) {
          await discardSource(opened);
          release();
          return undefined;
        }
        const headers = byteHeaders({
          uri,
          info: opened.info,
          mimeType,
          rangeable: etag !== undefined && grants.servesParts,
          // an MCP client gets this, not a browser
          exactType: true,
        });
        const grant = await this.#mintResumeUrl(identity, name, etag);
        if (grant) {
          entry.facts.grant = grant.id;
          headers.push("Link", `<${grant.url}>; rel="stream"`);
        }
        await entry.recordBegun();
        const transfer = transfers.open(opened, { entry, release });
        return { reply: { status: 200, headers, transfer } };
      });
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Delivers a URL that storage signs, if it leads to one of the origins that the mount allows. */
  async redirect({
    uri,
    place,
    info,
    mimeType,
    storage,
    identity,
    entry,
    signal,
  }: ResourceDelivery): Promise<StreamAnswer | undefined> {
    const { key, mount } = place;
    const signOptions = { expiresInMs: signedUrlMs, ...definedMembers({ signal }) };
    const headerOptions = {
      contentType: mimeType,
      contentDisposition: formatContentDisposition(key),
    };
    // some services, such as Graph, sign URLs but cannot set the headers of their responses
    const presigned =
      (await storage.presign?.(key, { ...signOptions, ...headerOptions })) ??
      (await storage.presign?.(key, signOptions));
    if (!presigned) return undefined;
    const { redirectOrigins } = mount;
    const origins =
      redirectOrigins === "storage"
        ? ((await storage.presignOrigins?.(definedMembers({ signal }))) ?? [])
        : redirectOrigins;
    if (!isRedirectTarget(presigned.url, origins)) return undefined;
    await entry.conclude("issued");
    // the bytes do not go through this server, so the whole size is charged now
    this.#options.transfers.charge(tagOf(identity.principal), info.size ?? 0);
    const facts = definedMembers({ contentType: mimeType, size: info.size });
    return { reply: redirectReply(uri, presigned.url, facts) };
  }

  /** Delivers a download URL in the JSON-RPC result. */
  async downloadUrl({
    uri,
    place,
    info,
    mimeType,
    identity,
    entry,
  }: ResourceDelivery): Promise<StreamAnswer | undefined> {
    const { grants, cacheTtlMs } = this.#options;
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
  }

  /**
   * A URL from which the download can resume; `undefined` if the caller gets none, its share of the store is full, or
   * the store is down.
   */
  async #mintResumeUrl(
    identity: Identity,
    name: string,
    etag: string | undefined,
  ): Promise<MintedGrant | undefined> {
    const { grants, onError } = this.#options;
    try {
      return await grants.mint(identity, name, etag);
    } catch (error) {
      if (!SluiceError.is(error)) throw error;
      if (error.code === "unavailable") onError(error);
      else if (error.code !== "throttled") throw error;
      return undefined;
    }
  }
}
