import { SluiceError } from "@sluice/core";
import type { ClientStreaming, DownloadUrlResult } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import type { AuthorizedStorage } from "../storage/authorized-storage.ts";
import type { Identity } from "../access/principal.ts";
import type { AuditEntry } from "../audit/audit.ts";
import type { Reply } from "../http/reply.ts";
import type { Place } from "../storage/mounts.ts";

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

/** Delivers a resource in one mode; `undefined` where that mode is impossible after all. */
export type DeliverResource = (delivery: ResourceDelivery) => Promise<StreamAnswer | undefined>;

/** Throws `too_large` for an object that is larger than the client takes. */
export function ensureFits({ size }: ObjectInfo, { maxStreamSize }: ClientStreaming): void {
  if (size !== undefined && maxStreamSize !== undefined && size > maxStreamSize)
    throw new SluiceError("too_large", "sluice: stream: larger than the client takes", { size });
}
