import type { Principal } from "@sluice/core";
import type { ClientStreaming, DeliveryMode } from "@sluice/core/wire";
import type { ObjectInfo } from "@sluice/storage";

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
