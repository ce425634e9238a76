import {
  clockSkewMs,
  encodeBase64Url,
  isExpired,
  resourceTag,
  SluiceError,
  tokenLifetimes,
  createTextSealer,
  type KeyRing,
  type Principal,
} from "@sluice/core";
import { createSealedRecords, isStoredToken, type StateStore } from "@sluice/state";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Identity } from "../access/principal.ts";
import { advised } from "../faults/advice.ts";
import { unversioned, type MintedGrant, type OpenGrant } from "./grants.ts";

/** Settings of links: URLs that work without credentials, and act for the principal that they were made for. */
export interface LinkRules {
  /** Life in milliseconds. Default and maximum: 15 minutes; never longer than the access token of the caller. */
  readonly ttlMs?: number;
  /** `window`, the default: any number of requests, which readers that seek need. `once`: one answer with bytes. */
  readonly use?: LinkUse;
  /**
   * - `stored`: the token has 32 characters, and what it permits is kept in `state` until it ends, sealed. The default where
   *   `state` is given, and with `"ephemeral"` keys.
   * - `sealed`: the token carries what it permits, in some 250 characters and more. The default elsewhere.
   */
  readonly tokens?: TokenForm;
}

export type LinkUse = "window" | "once";

/** How a browser treats the bytes: it saves them, or shows them where it can. */
export type LinkDisposition = "attachment" | "inline";

/** What a link is for. */
export interface LinkTerms {
  /** Of the resource, as tokens have it. */
  readonly name: string;
  /** Of the version that it is for; `undefined` if storage names none. */
  readonly etag: string | undefined;
  readonly use?: LinkUse | undefined;
  readonly ttlMs?: number | undefined;
  /** Default `attachment`. */
  readonly disposition?: LinkDisposition | undefined;
}

/** A redeemed link: a grant, and what only links have. */
export interface OpenLink extends OpenGrant {
  /** The principal that it acts for; absent for the anonymous. */
  readonly minter: Principal | undefined;
  readonly disposition: LinkDisposition;
}

interface LinkParts {
  readonly rules: LinkRules;
  readonly keys: KeyRing;
  readonly state: StateStore;
  readonly audience: string;
  readonly form: TokenForm;
  readonly bindSession: BindSession;
  /** Called for each link: a route must serve it. */
  readonly onMint: () => void;
}

/** Path of the links below the endpoint. */
const linksPath = "/d/";

/** Makes the links of one Sluice, and opens them. */
export class Links {
  readonly #parts: LinkParts;
  readonly #tokens: LinkTokens;

  /** Throws a `RangeError` or `TypeError` for rules that cannot work. */
  constructor(parts: LinkParts) {
    ensureLinkRules(parts.rules);
    this.#parts = parts;
    this.#tokens = createLinkTokens(parts);
  }

  /** `undefined` when this identity gets none, such as one whose access token is about to end. */
  async mint(
    identity: Identity,
    { name, etag, use, ttlMs, disposition = "attachment" }: LinkTerms,
  ): Promise<MintedGrant | undefined> {
    const { rules, audience, bindSession, onMint } = this.#parts;
    const { principal, mayMint, maxTtlMs, owner = "" } = identity;
    const lifeMs = Math.min(ttlMs ?? rules.ttlMs ?? longestMs, longestMs, maxTtlMs);
    if (!mayMint || lifeMs < 1_000) return undefined;
    const now = Date.now();
    const issuedAt = wholeSeconds(now);
    const expiresAt = issuedAt + wholeSeconds(lifeMs);
    const id = encodeBase64Url(crypto.getRandomValues(new Uint8Array(16)));
    const record: KeptLink = {
      id,
      name,
      etag: etag ?? unversioned,
      use: use ?? rules.use ?? "window",
      issuedAt,
      expiresAt,
      disposition,
      principal: principal && onlyPrincipal(principal),
    };
    await bindSession(identity);
    const token = await this.#tokens.issue(JSON.stringify(record), {
      now,
      expiresAt: expiresAt + 2 * clockSkewMs,
      owner,
    });
    onMint();
    return { token, id, issuedAt, expiresAt, url: `${audience}${linksPath}${token}` };
  }

  /** Rejects with `not_found` for an unknown or expired link, and with errors of the store. */
  async open(token: string, now: number): Promise<OpenLink> {
    // what is in the seal was made by mint
    const record = JSON.parse(await this.#tokens.open(token, now)) as KeptLink;
    if (isExpired(record.expiresAt, now))
      throw new SluiceError("not_found", "sluice: the link has expired");
    return toOpenLink(record);
  }
}

/** A link as its token or its record has it. */
interface KeptLink {
  readonly id: string;
  readonly name: string;
  readonly etag: string;
  readonly use: LinkUse;
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly disposition: LinkDisposition;
  readonly principal: Principal | undefined;
}

const { maxTtlMs: longestMs } = tokenLifetimes.download.self;

/** The members of a principal: a resolver may give an object that has more. */
function onlyPrincipal(principal: Principal): Principal {
  const { issuer, subject, clientId, sessionId, scopes, claims } = principal;
  return { issuer, subject, clientId, sessionId, scopes, claims };
}

function toOpenLink(kept: KeptLink): OpenLink {
  const { id, name, etag, use, issuedAt, expiresAt, disposition, principal } = kept;
  const sessionId = principal?.sessionId;
  return {
    id,
    key: name,
    auth: "self",
    use,
    issuedAt,
    expiresAt,
    sessionBound: sessionId !== undefined,
    sessionTag: sessionId === undefined ? undefined : resourceTag(sessionId),
    etagBound: true,
    matchesPrincipal: () => false,
    matchesEtag: (other) => other === etag,
    isUnversioned: () => etag === unversioned,
    resource: resourceTag(name),
    minter: principal,
    disposition,
  };
}

/** Throws a `RangeError` or `TypeError` for a life or a use that no link can have. */
export function ensureLinkRules({ ttlMs, use = "window" }: Pick<LinkRules, "ttlMs" | "use">): void {
  // written so that NaN fails it
  if (ttlMs !== undefined && !(ttlMs >= 1_000 && ttlMs <= longestMs))
    throw new RangeError(`sluice: the ttlMs of links is a number from 1000 to ${longestMs}`);
  if (use !== "window" && use !== "once")
    throw new TypeError('sluice: the use of links is "window" or "once"');
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}

/** Where what a token permits is kept: in the state store, or in the token itself. */
export type TokenForm = "stored" | "sealed";

/** Turns the text of a link into a token, and back. */
interface LinkTokens {
  /** Rejects with `too_large` for a text that does not fit into a token, and with errors of the store. */
  issue(text: string, terms: LinkTokenTerms): Promise<string>;
  /** Rejects with `not_found` for a text not issued by these keys for this endpoint, and with errors of the store. */
  open(token: string, now: number): Promise<string>;
}

interface LinkTokenTerms {
  readonly now: number;
  /** Until then the store keeps the text, unix milliseconds. */
  readonly expiresAt: number;
  /** In whose share of the store it counts. */
  readonly owner: string;
}

/** Maximum bytes of a text: a URL of 4 KiB passes every client and proxy. */
const maxText: Readonly<Record<TokenForm, number>> = { sealed: 2_900, stored: 16_384 };
const secretLength = 24;

/**
 * Makes the tokens of links. A stored one is 192 random bits, 32 characters of base64url; its text is a record under its
 * SHA-256, sealed for this token: the store alone opens, alters and makes none. A sealed one carries its text.
 */
function createLinkTokens({ keys, state, audience, form }: LinkParts): LinkTokens {
  const sealer = createTextSealer({ keys, purpose: "link", maxLength: 32_768 });
  const records = createSealedRecords({ state, sealer, kind: "link" });
  const context = [audience];
  const limit = maxText[form];
  return {
    async issue(text, terms) {
      if (new TextEncoder().encode(text).length > limit)
        throw advised(
          "too_large",
          `The claims of this principal do not fit into a link: at most ${limit} bytes`,
        );
      if (form === "sealed") return sealer.seal(text, context);
      const token = encodeBase64Url(crypto.getRandomValues(new Uint8Array(secretLength)));
      await records.keep(token, text, context, terms);
      return token;
    },
    async open(token, now) {
      try {
        // without stored tokens a text that looks like one costs the store nothing
        return form === "stored" && isStoredToken(token)
          ? await records.find(token, context, now)
          : sealer.unseal(token, context);
      } catch (error) {
        if (!SluiceError.is(error) || error.code !== "invalid_argument") throw error;
        throw new SluiceError("not_found", "sluice: there is no such link", { cause: error });
      }
    },
  };
}
