import {
  definedMembers,
  createSealer,
  SluiceError,
  tokenLifetimes,
  isExpired,
  resourceTag,
  type GrantUse,
  type KeyRing,
  type Sealer,
  type IssuedToken,
  type OpenedToken,
} from "@sluice/core";
import {
  createTokenStore,
  isStoredToken,
  type TokenStore,
  type ClaimedBody,
  type StateStore,
} from "@sluice/state";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Identity } from "../access/principal.ts";

/** Settings of download URLs. */
export interface GrantOptions {
  readonly use?: GrantUse;
  /**
   * Life in milliseconds. Default 5 minutes when bound and 1 minute otherwise; at most 60 and 15
   * minutes, and never longer than the access token.
   */
  readonly ttlMs?: number;
  /**
   * - `sealed`, the default: the URL itself carries what it permits, sealed under `keys`. No state is kept of it.
   * - `stored`: the URL is a random id, and what it permits is kept in `state` until it ends, sealed too. Nothing is
   *   encoded in the URL; making and opening one takes the store.
   */
  readonly tokens?: "sealed" | "stored";
  /**
   * Whether download URLs can be withdrawn, and end with their session. Default true: each redemption asks the state store. With
   * false, bound `window` URLs work without it, and end by their time, their key and the access rules only. Not with
   * `stored`, `once` or `lease`, which need the store.
   */
  readonly revocable?: boolean;
}

interface ClaimedAnswer {
  /** Tag of the principal. */
  readonly principal: string | undefined;
  readonly body: ClaimedBody;
  /** False for an answer without bytes: it needs a live grant and uses none up. */
  readonly hasBytes: boolean;
}

/** A download URL and its token's facts. */
export interface MintedGrant extends IssuedToken {
  readonly url: string;
}

interface GrantParts {
  readonly keys: KeyRing;
  readonly state: StateStore;
  readonly bindSession: BindSession;
  /** URL of the endpoint, for which alone tokens are good. */
  readonly audience: string;
  readonly grant: GrantOptions;
  /** Called once for a download URL that is minted while no route in this process serves any. */
  readonly onWarning: (message: string) => void;
}

/** Makes the download URLs of one Sluice, sealed or stored as `grant` says, and opens them. */
export class Grants {
  readonly #parts: GrantParts;
  readonly #sealer: Sealer;
  readonly #stored: TokenStore;
  readonly #unseal: (token: string, now: number) => OpenGrant;
  /** Without stored tokens a text that looks like one costs the store nothing. */
  readonly #opensStored: boolean;
  readonly #isRevocable: boolean;
  #needsWarning = true;

  /** Throws a `TypeError` or `RangeError` for options that cannot work. */
  constructor(parts: GrantParts) {
    const { keys, state, audience, grant } = parts;
    ensureGrant(grant);
    this.#parts = parts;
    this.#sealer = createSealer({ keys, audience });
    this.#stored = createTokenStore({ keys, audience, state });
    this.#unseal = createGrantOpener(this.#sealer, keys);
    this.#opensStored = grant.tokens === "stored";
    this.#isRevocable = grant.revocable ?? true;
  }

  /** False when a URL serves one request: no other connection can ask it for a part. */
  get servesParts(): boolean {
    return this.#parts.grant.use !== "once";
  }

  /** Opens a token; throws, or rejects with, `not_found`, `expired`, and errors of the store if the token is stored. */
  open(token: string, now: number): OpenGrant | Promise<OpenGrant> {
    return this.#opensStored && isStoredToken(token)
      ? this.#stored.open("download", token, { now }).then(toOpenGrant)
      : this.#unseal(token, now);
  }

  /** True for a sealed token that works for every holder, until it expires. Never for a stored one. */
  isSelfAuthenticating(token: string): boolean {
    try {
      return this.#unseal(token, Date.now()).auth === "self";
    } catch {
      return false;
    }
  }

  /** Rejects with `not_found` when the session that a grant is bound to has ended. */
  ensureSession(opened: OpenGrant): Promise<void> | undefined {
    return opened.sessionTag !== undefined && this.#asksStore(opened)
      ? ensureLiveSession(this.#parts.state, opened.sessionTag)
      : undefined;
  }

  /** Claims a grant for an answer, where the state store has a say. Rejects with `not_found` or `expired`. */
  claim(opened: OpenGrant, answer: ClaimedAnswer): Promise<void> | undefined {
    return this.#asksStore(opened) ? claim(this.#parts.state, opened, answer) : undefined;
  }

  /** Gives back what a claim took for bytes that were not sent. Rejects with errors of the store. */
  refund({ id }: OpenGrant, bytes: number): Promise<void> {
    return this.#parts.state.refund(id, bytes, Date.now());
  }

  /** A download URL for the resource of a name; `undefined` when this identity gets none. Rejects with errors of the store. */
  async mint(
    identity: Identity,
    name: string,
    etag: string | undefined,
  ): Promise<MintedGrant | undefined> {
    const { grant, bindSession, audience } = this.#parts;
    const { principal, mayMint, maxTtlMs, owner = "" } = identity;
    const auth = principal ? "bound" : "self";
    const { ttlMs: defaultTtlMs, maxTtlMs: longest } = tokenLifetimes.download[auth];
    const ttlMs = Math.min(grant.ttlMs ?? defaultTtlMs, longest, maxTtlMs);
    if (!mayMint || ttlMs < 1_000) return undefined;
    const claims = {
      key: name,
      use: grant.use ?? (principal ? "window" : "lease"),
      ttlMs,
      ...definedMembers({ principal }),
      etag: etag ?? unversioned,
    } as const;
    // the end of a session withdraws its URLs, which nothing asks if they are not revocable
    if (this.#isRevocable) await bindSession(identity);
    const minted = this.#opensStored
      ? await this.#stored.issue("download", claims, { owner })
      : this.#sealer.seal("download", claims);
    this.noteMint();
    return { ...minted, url: `${audience}/streams/${minted.token}` };
  }

  /** A URL was made: it needs a route in this process. */
  noteMint(): void {
    if (this.#needsWarning) this.#parts.onWarning(unservedWarning);
    this.#needsWarning = false;
  }

  /** Download URLs have a route in this process. */
  markServed(): void {
    this.#needsWarning = false;
  }

  /** Whether the store decides how often a grant is used, and whether it or its session was withdrawn. */
  #asksStore({ auth, use }: OpenGrant): boolean {
    // a `self` URL works for every holder, so only the store can end it early
    return this.#isRevocable || auth === "self" || use !== "window";
  }
}

const unservedWarning =
  "a download URL was issued, and nothing in this process serves it: serve the endpoint with withSluice(handler, sluice) of @sluice/transport-http, or let createSidecar serve it, here or in another process";

async function ensureLiveSession(state: StateStore, sessionTag: string): Promise<void> {
  if (await state.isSessionOver(sessionTag, Date.now()))
    throw new SluiceError("not_found", "sluice: redeem: the session ended");
}

async function claim(
  state: StateStore,
  { id, use, issuedAt, expiresAt, resource }: OpenGrant,
  { principal = "", body, hasBytes }: ClaimedAnswer,
): Promise<void> {
  const counted = hasBytes ? use : "window";
  const claimed = { id, use: counted, issuedAt, expiresAt, principal, resource };
  const { outcome } = await state.claim(claimed, Date.now(), body);
  if (outcome === "granted") return;
  if (outcome === "expired") throw new SluiceError("expired", "sluice: redeem: the grant expired");
  throw new SluiceError("not_found", `sluice: redeem: the grant is ${outcome}`);
}

function ensureGrant({ ttlMs, use = "window", tokens = "sealed", revocable = true }: GrantOptions) {
  const { maxTtlMs } = tokenLifetimes.download.bound;
  if (ttlMs !== undefined && !(ttlMs >= 1_000 && ttlMs <= maxTtlMs))
    throw new RangeError(`createSluice: grant.ttlMs must be from 1000 to ${maxTtlMs}`);
  if (!["window", "once", "lease"].includes(use))
    throw new TypeError('createSluice: grant.use is "window", "once" or "lease"');
  if (tokens !== "sealed" && tokens !== "stored")
    throw new TypeError('createSluice: grant.tokens is "sealed" or "stored"');
  if (typeof revocable !== "boolean")
    throw new TypeError("createSluice: grant.revocable is true or false");
  if (!revocable && (tokens === "stored" || use !== "window"))
    throw new TypeError(
      "createSluice: grant.revocable: false is for URLs that need no store; leave out " +
        (tokens === "stored" ? 'tokens: "stored"' : `use: "${use}"`),
    );
}

/** How long an opened token is remembered. */
const keptMs = 1_000;
const maxKept = 256;

/** An open grant. Its matches are computed once, for clients that send many range requests. */
export interface OpenGrant extends OpenedToken {
  /** Opaque tag of the object, for the state store. */
  readonly resource: string;
  /** True when it was issued for an object of no version. */
  readonly isUnversioned: () => boolean;
}

/**
 * Opens sealed tokens, and remembers for a second what it opened: clients that fetch one object in
 * ranges send the same token many times a second. Everything that can change is still asked each
 * time: the key, expiry, principal, access, version and claim.
 */
export function createGrantOpener(
  sealer: Sealer,
  keys: KeyRing,
): (token: string, now: number) => OpenGrant {
  const openGrants = new Map<string, KeptGrant>();
  // characters 3 and 4 of a token name its key; a replaced ring derives another array, also for the same name
  const keyOf = (token: string): unknown => keys.derive(token.slice(3, 5), "sluice/v1/download");

  return (token, now) => {
    const openGrant = openGrants.get(token);
    if (openGrant && isStillOpen(openGrant, now) && openGrant.key === keyOf(token))
      return openGrant.grant;
    openGrants.delete(token);
    const grant = toOpenGrant(sealer.unseal("download", token, { now }));
    if (openGrants.size >= maxKept) openGrants.delete(openGrants.keys().next().value!);
    openGrants.set(token, { grant, key: keyOf(token), until: now + keptMs });
    return grant;
  };
}

interface KeptGrant {
  readonly grant: OpenGrant;
  /** What it was opened with. */
  readonly key: unknown;
  readonly until: number;
}

function isStillOpen({ grant, until }: KeptGrant, now: number): boolean {
  return now < until && !isExpired(grant.expiresAt, now);
}

/** Stands for "no etag" in a grant for an object of which storage names none. No etag has a space. */
export const unversioned: string = " ";

/** Makes an opened token a grant that computes each match once. */
function toOpenGrant(grant: OpenedToken): OpenGrant {
  let matched: string | undefined;
  let isUnversioned: boolean | undefined;
  return {
    ...grant,
    resource: resourceTag(grant.key),
    isUnversioned: () => (isUnversioned ??= grant.etagBound && grant.matchesEtag(unversioned)),
    matchesEtag(etag) {
      if (etag !== undefined && etag === matched) return true;
      if (!grant.matchesEtag(etag)) return false;
      matched = etag;
      return true;
    },
  };
}
