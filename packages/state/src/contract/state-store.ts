import type { Claim, ClaimedBody, GrantTerms } from "@sluice/core";

/** Which grants to revoke: one, or every one issued so far to a principal or for a resource. */
export type GrantSelector =
  | { readonly id: string }
  | { readonly principal: string }
  | { readonly resource: string };

/** What a record is kept with. */
export interface RecordTerms {
  readonly now: number;
  readonly expiresAt: number;
  /**
   * Opaque tag of the principal for which it is kept (`principalTag`), in whose share it counts. Empty for callers
   * that nothing but themselves vouches for: they have one share together.
   */
  readonly owner: string;
}

/** That something is bound to a session. */
export interface SessionBinding {
  readonly now: number;
  /** When all that is bound so far is over. */
  readonly expiresAt: number;
  /** As for a record. */
  readonly owner: string;
}

/** Bounds of what one owner may have in a store. */
export interface StateStoreLimits {
  /** Most live records of one owner, and most sessions of one that something is bound to. */
  readonly maxRecordsPerOwner?: number;
}

/**
 * The small state that must be shared once there is more than one process. Every method is
 * atomic across processes; a store that cannot answer, in a time that it bounds itself, rejects with `unavailable`, never "allow".
 * Strings are opaque ASCII of at most 128 characters; times are unix milliseconds.
 */
export interface StateStore {
  /**
   * Whether other processes see what is in it. Where they do, keys that one process made for itself are
   * refused: the others could open nothing of what it seals.
   */
  readonly shared: boolean;
  /**
   * Redeems a grant for one body-bearing response, as `claimGrant` says. Of any number of
   * simultaneous claims of a `once` grant exactly one is granted, and those of a lease together never get more than
   * it allows. Default of `body`: one without bytes.
   */
  claim(terms: GrantTerms, now: number, body?: ClaimedBody): Promise<Claim>;
  /** Gives bytes back to a lease that were claimed and not sent. Other grants and unknown ids are left alone. */
  refund(id: string, bytes: number, now: number): Promise<void>;
  /** Withdraws grants issued up to `now`; kept for `ttlMs`, the longest life of any grant. */
  revoke(
    selector: GrantSelector,
    options: { readonly now: number; readonly ttlMs: number },
  ): Promise<void>;
  /**
   * Keeps an opaque record until `expiresAt`. An id that is still kept rejects with
   * `already_exists`; whether the very same record with the same times does, is up to the store, as a
   * lost connection may bring it twice. Where the id is a secret, pass its SHA-256: a dump of the
   * store then redeems nothing. Rejects with `throttled` and `retryAfterMs` while the owner has as many live
   * records as one owner may have ({@link StateStoreLimits}); other owners go on.
   */
  put(id: string, record: Uint8Array, terms: RecordTerms): Promise<void>;
  /** The record, or `undefined` when it was never there or has expired. */
  get(id: string, now: number): Promise<Uint8Array | undefined>;
  /** The record, removed in the same step: of any number of callers exactly one gets it. */
  take(id: string, now: number): Promise<Uint8Array | undefined>;
  /**
   * Notes that something is bound to a session until `expiresAt`, at least. Binding again prolongs that
   * and revives nothing. At the share of its owner one of that owner's oldest sessions is forgotten, never another
   * owner's: its end is not remembered then, and what is bound to it ends by its time. Sessions share no room with records.
   * A session counts in the share of the owner that it was bound to first.
   */
  bindSession(session: string, binding: SessionBinding): Promise<void>;
  /** Ends a session that something is bound to. Of others nothing is kept: their ends cost no room. */
  endSession(session: string, now: number): Promise<void>;
  /** Whether a session was ended, while something was bound to it. */
  isSessionOver(session: string, now: number): Promise<boolean>;
  /** Releases connections and timers. Idempotent. */
  close?(): Promise<void>;
}
