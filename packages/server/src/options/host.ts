import type { KeyRing, StateStore } from "@sluice/core";
import type { UriMapper } from "@sluice/storage";
import type { StorageAccess } from "../access/authorized-storage.ts";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Callers } from "../access/callers.ts";
import type { BeginAudit } from "../audit/audit.ts";
import type { FailedRedemptions } from "../grants/failed-redemptions.ts";
import type { Grants } from "../grants/grants.ts";
import type { UsageMeter } from "../limits/rate-limits.ts";
import type { Endpoint } from "./endpoint.ts";

/** What packages that serve under the same endpoint, such as uploads, share with a Sluice. Take the members that you use. */
export interface Host {
  readonly endpoint: Endpoint;
  readonly keys: KeyRing;
  readonly state: StateStore;
  readonly mapper: UriMapper;
  /** Counts requests and bytes of principals. */
  readonly usage: UsageMeter;
  /** Counts requests with tokens that open nothing. */
  readonly failures: FailedRedemptions;
  readonly identify: Callers["identify"];
  readonly addressOf: Callers["addressOf"];
  /** Storage as a principal may use it for one resource. */
  readonly authorize: StorageAccess["authorize"];
  /** Makes a download URL. */
  readonly mint: Grants["mint"];
  /** Notes that something is bound to the session of an identity. */
  readonly bindSession: BindSession;
  readonly beginAudit: BeginAudit;
  /** Says that download URLs have a route in this process. Without one the first URL causes a warning. */
  markServed(): void;
  readonly onError: (error: unknown) => void;
}
