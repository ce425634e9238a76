import type { ClientLimits } from "@sluice/core/internal";
import type { ClaimedBody, GrantClaim, GrantTerms } from "./grant.ts";

/** Which grants to revoke: one, or every one issued so far to a principal or for a resource. */
export type GrantSelector =
  | { readonly id: string }
  | { readonly principal: string }
  | { readonly resource: string };

/**
 * Kind and value of a selector, for stores. Throws a `TypeError` that begins with `store` for an
 * invalid one: a self-authenticating grant has an empty principal, and revoking that would revoke
 * them all.
 */
export function readSelector(
  store: string,
  selector: GrantSelector,
): readonly [kind: string, value: string] {
  const [[kind, value] = ["", ""], ...others] = Object.entries(selector) as [string, unknown][];
  if (typeof value !== "string" || value === "" || others.length > 0)
    throw new TypeError(`${store}: revoke: name one id, principal or resource`);
  return [kind, value];
}

/** Until when, and in whose share, a record or something bound to a session is kept. */
export interface RecordTerms {
  readonly now: number;
  readonly expiresAt: number;
  /** Opaque tag of the principal (`principalTag`). Empty for callers without one: they have one share together. */
  readonly owner: string;
}

/** Bounds of one owner's share of a store. */
export interface StateStoreLimits {
  /** Maximum live records of one principal, and maximum sessions of one that something is bound to. */
  readonly records?: Pick<ClientLimits, "perPrincipal">;
}

/**
 * The small state that several processes of one server share. Every method is atomic across processes.
 * A store that cannot answer within its own time limit rejects with `unavailable`; it never allows.
 * Strings are opaque ASCII of at most 128 characters; times are unix milliseconds.
 */
export interface StateStore {
  /**
   * True when other processes see what is in it. Servers then refuse keys that one process made for itself:
   * the others could not open what it seals.
   */
  readonly shared: boolean;
  /**
   * Redeems a grant for one body-bearing response, as `claimGrant` says. Exactly one of any number of simultaneous
   * claims of a `once` grant is granted; those of a lease together never get more than it allows.
   * Default of `body`: one without bytes.
   */
  claim(terms: GrantTerms, now: number, body?: ClaimedBody): Promise<GrantClaim>;
  /** Gives bytes back to a lease that were claimed and not sent. Other grants and unknown ids are ignored. */
  refund(id: string, bytes: number, now: number): Promise<void>;
  /** Withdraws grants issued up to `now`; kept for `ttlMs`, the longest life of those that it is about. */
  revoke(
    selector: GrantSelector,
    options: { readonly now: number; readonly ttlMs: number },
  ): Promise<void>;
  /**
   * Keeps an opaque record until `expiresAt`. If the id is a secret, pass its SHA-256: a dump of the store then
   * redeems nothing. Rejects with
   * - `already_exists` for an id that is still kept. A store may accept the very same record with the same times
   *   again: a lost connection may bring it twice
   * - `throttled` and `retryAfterMs` while the owner's share is full ({@link StateStoreLimits}); other owners
   *   continue
   */
  put(id: string, record: Uint8Array, terms: RecordTerms): Promise<void>;
  /** The record; `undefined` when it was never there or has expired. */
  get(id: string, now: number): Promise<Uint8Array | undefined>;
  /** The record, removed in the same step: of any number of callers exactly one gets it. */
  take(id: string, now: number): Promise<Uint8Array | undefined>;
  /**
   * Notes that something is bound to a session, at least until `expiresAt`. Binding again prolongs that and revives
   * nothing. A session counts in the share of the owner that it was bound to first, apart from records. A full share
   * forgets one of its owner's oldest sessions, never another owner's: the end of that session is not remembered, and
   * what is bound to it ends by its time.
   */
  bindSession(session: string, terms: RecordTerms): Promise<void>;
  /** Ends a session that something is bound to. Other sessions leave nothing behind. */
  endSession(session: string, now: number): Promise<void>;
  /** True when a session was ended while something was bound to it. */
  isSessionOver(session: string, now: number): Promise<boolean>;
  /** Releases connections and timers. Idempotent. */
  close?(): Promise<void>;
}
