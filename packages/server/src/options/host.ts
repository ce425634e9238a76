import type { KeyRing } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import type { UriMapper } from "@sluice/storage";
import type { AuthorizationRequest, AuthorizedStorage } from "../access/authorized-storage.ts";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Caller, Identity } from "../access/principal.ts";
import type { BeginAudit } from "../audit/audit.ts";
import type { FailedRedemptions } from "../grants/failed-redemptions.ts";
import type { MintedGrant } from "../grants/grants.ts";
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
  /** Rejects with `unauthenticated` for a caller that is unknown where the anonymous are refused. */
  readonly identify: (caller: Caller) => Identity | Promise<Identity>;
  /** Address of the client of a request, where it is known. Never throws. */
  readonly addressOf: (caller: Caller) => string | undefined;
  /** Storage as a principal may use it for one resource. Throws what a client may learn. */
  readonly authorize: (request: AuthorizationRequest) => Promise<AuthorizedStorage>;
  /** A download URL for a key; `undefined` when this identity gets none. Rejects with what the state store says. */
  readonly mint: (
    identity: Identity,
    key: string,
    etag: string | undefined,
  ) => Promise<MintedGrant | undefined>;
  /** Notes that something is bound to the session of an identity. */
  readonly bindSession: BindSession;
  readonly beginAudit: BeginAudit;
  /** Says that download URLs have a route in this process. Without one the first URL causes a warning. */
  markServed(): void;
  readonly onError: (error: unknown) => void;
}
