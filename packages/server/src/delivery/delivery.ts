import type { Principal } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import type { ClientStreaming, DeliveryMode } from "@sluice/core/wire";

/**
 * How bytes should travel. `auto` takes what the client prefers, then a redirect where storage can
 * sign one, then a direct answer, then a download URL. A mode that is impossible for a resource
 * or a connection falls back to a download URL.
 */
export type Delivery = "auto" | DeliveryMode;

/** One delivery for all resources, or a function that chooses. */
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

/** What is possible on this request. */
export interface DeliveryMeans {
  readonly direct: boolean;
  readonly redirect: boolean;
  readonly downloadUrl: boolean;
}

/** The modes to try, best first. */
export function deliveryOrder(
  delivery: Delivery,
  prefer: readonly DeliveryMode[],
  means: DeliveryMeans,
): DeliveryMode[] {
  const wanted: readonly DeliveryMode[] =
    delivery === "auto"
      ? [...prefer, "redirect", "direct", "downloadUrl"]
      : [delivery, "downloadUrl"];
  return [...new Set(wanted)].filter((mode) => means[mode]);
}
