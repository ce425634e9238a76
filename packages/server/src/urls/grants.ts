import {
  definedMembers,
  createSealer,
  SluiceError,
  tokenLifetimes,
  type GrantUse,
  type KeyRing,
  type IssuedToken,
} from "@sluice/core";
import { createTokenStore, isStoredToken, type ClaimedBody, type StateStore } from "@sluice/state";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Identity } from "../access/principal.ts";
import { createGrantOpener, toOpenGrant, unversioned, type OpenGrant } from "./open-grant.ts";

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

/** Makes the download URLs of one Sluice, and opens them. */
export interface Grants {
  /** Opens a token; throws, or rejects with, `not_found`, `expired`, and what the store says where the token is stored. */
  open(token: string, now: number): OpenGrant | Promise<OpenGrant>;
  /** Rejects with `not_found` when the session that a grant is bound to is over. */
  ensureSession(grant: OpenGrant): Promise<void> | undefined;
  /** Claims a grant for an answer, where the state store has a say. Rejects with `not_found` or `expired`. */
  claim(grant: OpenGrant, answer: ClaimedAnswer): Promise<void> | undefined;
  /** Gives back what a claim took for bytes that were not sent. Rejects with what the store says. */
  refund(grant: OpenGrant, bytes: number): Promise<void>;
  /** A download URL for the resource of a name; `undefined` when this identity gets none. Rejects with what the store says. */
  readonly mint: (
    identity: Identity,
    name: string,
    etag: string | undefined,
  ) => Promise<MintedGrant | undefined>;
  /** False when a URL serves one request: no other connection can ask it for a part. */
  readonly servesParts: boolean;
  /** True for a sealed token that works for every holder, until its time is over. Never for a stored one. */
  readonly isSelfAuthenticating: (token: string) => boolean;
  /** A URL was made: it needs a route in this process. */
  readonly onMint: () => void;
  /** Download URLs have a route in this process. */
  readonly markServed: () => void;
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
  /** Hears once of a download URL that is minted while no route in this process serves any. */
  readonly onWarning: (message: string) => void;
}

/** Makes sealed or stored tokens, as `grant` says; a `TypeError` or `RangeError` for options that cannot work. */
export function createGrants(options: GrantParts): Grants {
  const { keys, state, bindSession, audience, grant, onWarning } = options;
  ensureGrant(grant);
  const { tokens = "sealed", revocable = true, use } = grant;
  const sealer = createSealer({ keys, audience });
  const stored = createTokenStore({ keys, audience, state });
  const unseal = createGrantOpener(sealer, keys);
  // without stored tokens a text that looks like one costs the store nothing
  const opensStored = tokens === "stored";
  let needsWarning = true;

  /** Whether the store decides how often a grant is used, and whether it or its session was withdrawn. */
  const asksStore = (opened: OpenGrant): boolean =>
    // a `self` URL works for every holder, so only the store can end it early
    revocable || opened.auth === "self" || opened.use !== "window";

  const onMint = (): void => {
    if (needsWarning) onWarning(unservedWarning);
    needsWarning = false;
  };

  return {
    isSelfAuthenticating(token) {
      try {
        return unseal(token, Date.now()).auth === "self";
      } catch {
        return false;
      }
    },
    onMint,
    servesParts: use !== "once",
    open: (token, now) =>
      opensStored && isStoredToken(token)
        ? stored.open("download", token, { now }).then(toOpenGrant)
        : unseal(token, now),
    ensureSession: (opened) =>
      opened.sessionTag !== undefined && asksStore(opened)
        ? ensureLiveSession(state, opened.sessionTag)
        : undefined,
    claim: (opened, answer) => (asksStore(opened) ? claim(state, opened, answer) : undefined),
    refund: ({ id }, bytes) => state.refund(id, bytes, Date.now()),
    async mint(identity, name, etag) {
      const { principal, mayMint, maxTtlMs, owner = "" } = identity;
      const auth = principal ? "bound" : "self";
      const { ttlMs: defaultTtlMs, maxTtlMs: longest } = tokenLifetimes.download[auth];
      const ttlMs = Math.min(grant.ttlMs ?? defaultTtlMs, longest, maxTtlMs);
      if (!mayMint || ttlMs < 1_000) return undefined;
      const claims = {
        key: name,
        use: use ?? (principal ? "window" : "lease"),
        ttlMs,
        ...definedMembers({ principal }),
        etag: etag ?? unversioned,
      } as const;
      // the end of a session withdraws its URLs, which nothing asks where they are not revocable
      if (revocable) await bindSession(identity);
      const minted = opensStored
        ? await stored.issue("download", claims, { owner })
        : sealer.seal("download", claims);
      onMint();
      return { ...minted, url: `${audience}/streams/${minted.token}` };
    },
    markServed: () => void (needsWarning = false),
  };
}

const unservedWarning =
  "a download URL was issued, and nothing in this process serves it: serve the endpoint with withSluice(handler, sluice) of @sluice/transport-http, or let createSidecar serve it, here or in another process";

async function ensureLiveSession(state: StateStore, sessionTag: string): Promise<void> {
  if (await state.isSessionOver(sessionTag, Date.now()))
    throw new SluiceError("not_found", "sluice: redeem: the session is over");
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
  if (outcome === "expired") throw new SluiceError("expired", "sluice: redeem: the grant is over");
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
