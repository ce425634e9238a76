import type { Principal } from "@sluice/core";
import {
  type ClientStreaming,
  type DeliveryMode,
  deliveryModes,
  withoutCredentials,
} from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";

/**
 * How bytes should travel. `auto` tries what the client prefers, then a redirect where storage can sign one, then a
 * direct response, then a download URL. A single mode that is impossible for a resource or a connection falls back to a
 * download URL. Whether a mode is possible is decided at each `resources/stream` call.
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

/** Origins that redirects may lead to; `storage`: those of the URLs that the storage signs. */
export type RedirectOrigins = readonly string[] | "storage";

interface DeliveryRules {
  readonly delivery?: DeliveryPolicy;
  readonly redirectOrigins?: RedirectOrigins;
}

/** Throws a `TypeError` for a delivery that does not exist, and for a redirect origin that no URL has. */
export function ensureDeliveryOptions({
  delivery = "auto",
  redirectOrigins = [],
}: DeliveryRules): void {
  if (typeof delivery !== "function") ensureDelivery(delivery);
  if (redirectOrigins === "storage") return;
  const wrong = [redirectOrigins]
    .flat()
    .find((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin);
  if (wrong !== undefined)
    throw new TypeError(
      `sluice: redirectOrigins are exact origins, such as "https://acme.s3.eu-west-1.amazonaws.com", without a path or a slash at the end, or "storage"; one is ${withoutCredentials(wrong)}`,
    );
}

/** Throws a `TypeError` for an invalid {@link Delivery}. */
export function ensureDelivery(delivery: unknown): asserts delivery is Delivery {
  if (!["auto", ...deliveryModes].includes(String(delivery)))
    throw new TypeError(
      `sluice: delivery must be "auto", "direct", "redirect" or "downloadUrl", or a function that returns one; it is ${String(delivery)}`,
    );
}
