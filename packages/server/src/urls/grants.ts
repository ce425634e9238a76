import {
  createSealer,
  SluiceError,
  tokenLifetimes,
  type IssuedToken,
  type KeyRing,
  type Sealer,
  type TokenClaims,
} from "@sluice/core";
import { maxKeyBytes } from "@sluice/core/internal";
import {
  createTokenStore,
  type ClaimedBody,
  type StateStore,
  type TokenStore,
} from "@sluice/state";
import { isStoredToken } from "@sluice/state/internal";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Identity } from "../access/principal.ts";
import { advised } from "../faults/advice.ts";
import {
  ensureGrantOptions,
  ensureLinkRules,
  usualLinkTtlMs,
  type GrantOptions,
  type LinkRules,
  type LinkTerms,
  type LinkUse,
  type TokenForm,
} from "./grant-options.ts";
import {
  formatLinkFacts,
  OpenGrant,
  SealedGrants,
  unversioned,
  type GrantKind,
} from "./open-grant.ts";

interface ClaimedAnswer {
  /** Tag of the principal. */
  readonly principal: string | undefined;
  readonly body: ClaimedBody;
  /** False for a response without bytes: the grant is checked and not used up. */
  readonly hasBytes: boolean;
}

/** A download URL or a link, and its token's facts. */
export interface MintedGrant extends IssuedToken {
  readonly url: string;
}

/** A link, and how often it may be used. */
export interface MintedLink extends MintedGrant {
  readonly use: LinkUse;
}

interface GrantParts {
  readonly keys: KeyRing;
  readonly state: StateStore;
  readonly bindSession: BindSession;
  /** URL of the endpoint, the only one that tokens are valid for. */
  readonly audience: string;
  readonly grant: GrantOptions;
  readonly links: LinkRules;
  /** Form of the tokens of links. */
  readonly linkTokens: TokenForm;
  /** Called once for a URL that is minted while no route in this process serves any. */
  readonly onWarning: (message: string) => void;
}

/** Paths of the URLs below the endpoint. */
const paths: Readonly<Record<GrantKind, string>> = { download: "/streams/", link: "/d/" };

/** Makes the download URLs and the links of one Sluice, sealed or stored as its options say, and opens them. */
export class Grants {
  readonly #parts: GrantParts;
  readonly #sealer: Sealer;
  readonly #stored: TokenStore;
  readonly #sealed: Readonly<Record<GrantKind, SealedGrants>>;
  readonly #forms: Readonly<Record<GrantKind, TokenForm>>;
  readonly #isRevocable: boolean;
  #needsWarning = true;

  /** Throws a `TypeError` or `RangeError` for options that cannot work. */
  constructor(parts: GrantParts) {
    const { keys, state, audience, grant, links, linkTokens } = parts;
    ensureGrantOptions(grant);
    ensureLinkRules(links, { tokens: linkTokens, isShared: (state.shared as unknown) !== false });
    this.#parts = parts;
    this.#sealer = createSealer({ keys, audience });
    this.#stored = createTokenStore({ keys, audience, state });
    this.#sealed = {
      download: new SealedGrants("download", this.#sealer, keys),
      link: new SealedGrants("link", this.#sealer, keys),
    };
    this.#forms = { download: grant.tokens ?? "sealed", link: linkTokens };
    this.#isRevocable = grant.revocable ?? true;
  }

  /** False when a URL serves one request: no other connection can ask it for a part. */
  get servesParts(): boolean {
    return this.#parts.grant.use !== "once";
  }

  /**
   * Opens a token; throws, or rejects with, `not_found`, `expired` unless it is a link, and errors of the store if the
   * token is stored.
   */
  open(kind: GrantKind, token: string, now: number): OpenGrant | Promise<OpenGrant> {
    // a Sluice that stores no tokens must not ask its store about a text that looks like one
    if (this.#forms[kind] === "stored" && isStoredToken(token))
      return this.#openStored(kind, token, now);
    try {
      return this.#sealed[kind].open(token, now);
    } catch (error) {
      throw openingError(kind, error);
    }
  }

  async #openStored(kind: GrantKind, token: string, now: number): Promise<OpenGrant> {
    try {
      return new OpenGrant(kind, await this.#stored.open(kind, token, { now }));
    } catch (error) {
      throw openingError(kind, error);
    }
  }

  /** True for a sealed token that works for every holder, until it expires. Never for a stored one. */
  isSelfAuthenticating(token: string): boolean {
    try {
      return this.#sealed.download.open(token, Date.now()).auth === "self";
    } catch {
      return false;
    }
  }

  /** Rejects with `not_found` when the session that a grant is bound to has ended. */
  async ensureSession(grant: OpenGrant): Promise<void> {
    if (grant.sessionTag === undefined || !this.#asksStore(grant)) return;
    if (await this.#parts.state.isSessionOver(grant.sessionTag, Date.now()))
      throw new SluiceError("not_found", "sluice: redeem: the session ended");
  }

  /** Claims a grant for a response, if the state store decides about it. Rejects with `not_found` or `expired`. */
  claim(grant: OpenGrant, answer: ClaimedAnswer): Promise<void> | undefined {
    return this.#asksStore(grant) ? claim(this.#parts.state, grant, answer) : undefined;
  }

  /** Gives back what a claim took for bytes that were not sent. Rejects with errors of the store. */
  refund({ id }: OpenGrant, bytes: number): Promise<void> {
    return this.#parts.state.refund(id, bytes, Date.now());
  }

  /** A download URL for a resource; `undefined` if this identity gets none. Rejects with errors of the store. */
  async mint(
    identity: Identity,
    name: string,
    etag: string | undefined,
  ): Promise<MintedGrant | undefined> {
    const { use, ttlMs } = this.#parts.grant;
    const { principal } = identity;
    const usualUse = principal ? "window" : "lease";
    return this.#issue("download", identity, {
      key: name,
      principal,
      use: use ?? usualUse,
      ttlMs,
      etag,
    });
  }

  /**
   * A link, which acts for its identity; `undefined` if this identity gets none, such as when its access token is about
   * to expire. Rejects with `too_large` for claims of a principal that do not fit, and with errors of the store.
   */
  async mintLink(
    identity: Identity,
    { name, etag, use: requestedUse, ttlMs, disposition = "attachment" }: LinkTerms,
  ): Promise<MintedLink | undefined> {
    const { links, linkTokens } = this.#parts;
    const use = requestedUse ?? links.use ?? "window";
    const key = formatLinkFacts(name, { minter: identity.principal, disposition });
    const limit = maxKeyBytes("link", linkTokens === "stored");
    if (new TextEncoder().encode(key).length > limit)
      throw advised(
        "too_large",
        `The claims of this principal do not fit into a link: at most ${limit} bytes`,
      );
    const claims = { key, use, ttlMs: ttlMs ?? usualLinkTtlMs(links), etag };
    const minted = await this.#issue("link", identity, claims);
    return minted && { ...minted, use };
  }

  async #issue(
    kind: GrantKind,
    identity: Identity,
    baseClaims: TokenClaims,
  ): Promise<MintedGrant | undefined> {
    const { bindSession, audience } = this.#parts;
    const { mayMint, maxTtlMs, owner = "" } = identity;
    const lifetime = tokenLifetimes[kind][baseClaims.principal ? "bound" : "self"];
    const ttlMs = Math.min(baseClaims.ttlMs ?? lifetime.ttlMs, lifetime.maxTtlMs, maxTtlMs);
    if (!mayMint || ttlMs < 1_000) return undefined;
    const claims = { ...baseClaims, ttlMs, etag: baseClaims.etag ?? unversioned };
    // the end of a session withdraws its URLs, except those that are not revocable
    if (this.#isRevocable || kind === "link") await bindSession(identity, ttlMs);
    const minted =
      this.#forms[kind] === "stored"
        ? await this.#stored.issue(kind, claims, { owner })
        : this.#sealer.seal(kind, claims);
    if (this.#needsWarning) this.#parts.onWarning(unservedWarning);
    this.#needsWarning = false;
    return { ...minted, url: `${audience}${paths[kind]}${minted.token}` };
  }

  /** Notes that this process serves its download URLs, so that no warning is due. */
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
  "a download URL was issued, and nothing in this process serves it: serve the endpoint with createHandler({ sluice, … }) of @sluice/transport-http, here or in another process";

/** The error to throw when a token did not open. For links, an expired token looks like an unknown one. */
function openingError(kind: GrantKind, error: unknown): unknown {
  if (kind !== "link" || !SluiceError.is(error) || error.code !== "expired") return error;
  return new SluiceError("not_found", "sluice: the link has expired");
}

async function claim(
  state: StateStore,
  { id, use, issuedAt, expiresAt, resource }: OpenGrant,
  { principal = "", body, hasBytes }: ClaimedAnswer,
): Promise<void> {
  // claimed as `window`, a grant is checked and not used up
  const claimedUse = hasBytes ? use : "window";
  const claimed = { id, use: claimedUse, issuedAt, expiresAt, principal, resource };
  const { outcome } = await state.claim(claimed, Date.now(), body);
  if (outcome === "granted") return;
  if (outcome === "expired") throw new SluiceError("expired", "sluice: redeem: the grant expired");
  throw new SluiceError("not_found", `sluice: redeem: the grant is ${outcome}`);
}
