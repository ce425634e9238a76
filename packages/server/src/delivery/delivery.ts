import { SluiceError, type Principal } from "@sluice/core";
import type { ClientStreaming, DeliveryMode, DownloadUrlResult } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";
import type { AuthorizedStorage } from "../access/authorized-storage.ts";
import type { Identity } from "../access/principal.ts";
import type { AuditEntry } from "../audit/audit.ts";
import type { Reply } from "../http/reply.ts";

/**
 * How bytes should travel. `auto` tries what the client prefers, then a redirect where storage can
 * sign one, then a direct answer, then a download URL. A single mode that is impossible for a resource
 * or a connection falls back to a download URL. {@link deliveryOrder} decides.
 */
export type Delivery = "auto" | DeliveryMode;

/** One delivery for all resources, or a function that chooses for each. */
export type DeliveryPolicy = Delivery | ((resource: DeliverySubject) => Delivery);

/** What a delivery function may look at. */
export interface DeliverySubject {
  readonly uri: string;
  readonly info: ObjectInfo;
  /** Media type as it will be sent. */
  readonly mimeType: string;
  readonly principal: Principal | undefined;
  readonly client: ClientStreaming;
}

/** A resource on its way to one client. */
export interface ResourceDelivery {
  /** As the client asked for it. */
  readonly uri: string;
  readonly key: string;
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

/** Modes in the order in which they are tried; a `TypeError` for what is no delivery, such as nothing from a function. */
export function deliveryOrder(
  delivery: Delivery,
  preferred: readonly DeliveryMode[] = [],
): readonly DeliveryMode[] {
  ensureDelivery(delivery);
  const order: readonly DeliveryMode[] =
    delivery === "auto"
      ? [...preferred, "redirect", "direct", "downloadUrl"]
      : [delivery, "downloadUrl"];
  return [...new Set(order)];
}

/** Throws a `TypeError` for what is no {@link Delivery}. */
export function ensureDelivery(delivery: unknown): asserts delivery is Delivery {
  if (!["auto", "direct", "redirect", "downloadUrl"].includes(String(delivery)))
    throw new TypeError(
      `sluice: delivery must be "auto", "direct", "redirect" or "downloadUrl", or a function that returns one; it is ${String(delivery)}`,
    );
}
