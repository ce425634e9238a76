import type { DeliveryMode } from "@sluice/core/internal";
import type { HopExchange, HopAnswer } from "../net/exchange.ts";
import type { SessionCredentials } from "../net/request-headers.ts";
import type { AcceptedUrl, UrlPolicy } from "../trust/accept-url.ts";
import type { HopScope } from "../trust/classify-address.ts";

/** What `resources/stream` granted: bytes on the spot, a URL to fetch them from, or both. */
export interface DownloadGrant {
  readonly mode: DeliveryMode;
  /** Bytes on the answer itself; they can be read once. */
  readonly direct?: HopAnswer | undefined;
  /** Where to fetch the bytes, whole or in ranges, while the grant lasts. */
  readonly target?: AcceptedUrl | undefined;
  readonly auth: "bound" | "self";
  readonly sessionBound: boolean;
  /** Redirects that may still follow the target. */
  readonly hopsLeft: number;
  /** The MCP server itself said that the target is this resource. */
  readonly named: boolean;
  readonly mimeType?: string | undefined;
  readonly size?: number | undefined;
  /** Strong, with quotes. */
  readonly etag?: string | undefined;
  /** SHA-256 in hex. */
  readonly sha256?: string | undefined;
  readonly name?: string | undefined;
  readonly ttlMs?: number | undefined;
  readonly credentials?: SessionCredentials | undefined;
  readonly exchange: HopExchange;
  readonly scope: HopScope;
  readonly policy: UrlPolicy;
  /** The caller named the URL itself: a response need not name the resource. */
  readonly isLink: boolean;
}

/** What a response itself says of a grant. */
export type GrantFacts = Omit<
  DownloadGrant,
  "exchange" | "credentials" | "scope" | "policy" | "isLink"
>;
