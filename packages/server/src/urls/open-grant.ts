import {
  resourceTag,
  type GrantUse,
  type KeyRing,
  type OpenedToken,
  type Principal,
  type Sealer,
  type TokenAuth,
} from "@sluice/core";
import { isExpired } from "@sluice/core/internal";
import type { ObjectInfo } from "@sluice/storage";
import type { Mounts, Place } from "../storage/mounts.ts";
import type { LinkDisposition } from "./grant-options.ts";

/** A URL for the bytes of a resource: `download` for a client of MCP, `link` for every holder. */
export type GrantKind = "download" | "link";

/** Stands for "no etag" in a grant for an object of which storage names none. No etag has a space. */
export const unversioned: string = " ";

/** What only links have. */
interface LinkFacts {
  /** The principal that it acts for; absent for the anonymous. */
  readonly minter?: Principal | undefined;
  readonly disposition: LinkDisposition;
}

/** The key of a link's token: what it is for, and the principal that it acts for. */
export function formatLinkFacts(name: string, { minter, disposition }: LinkFacts): string {
  return JSON.stringify([name, disposition, minter && onlyPrincipal(minter)]);
}

/** The members of a principal: a resolver may give an object that has more. */
function onlyPrincipal(principal: Principal): Principal {
  const { issuer, subject, clientId, sessionId, scopes, claims } = principal;
  return { issuer, subject, clientId, sessionId, scopes, claims };
}

/** Headers of a response with a whole object that lies in memory. Its bytes are not here: storage bounds how many it keeps. */
interface MemoryHeaders {
  /** Compared by identity: another version of the object has another one. */
  readonly info: ObjectInfo;
  /** Frozen: every response has the same array. */
  readonly headers: readonly string[];
}

/** An open grant. What cannot change is computed once, for clients that send many range requests. */
export class OpenGrant {
  readonly id: string;
  /** Name of the resource, as tokens have it. */
  readonly name: string;
  readonly auth: TokenAuth;
  readonly use: GrantUse;
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** Tag of the session that it ends with. */
  readonly sessionTag: string | undefined;
  /** Opaque tag of the object, for the state store. */
  readonly resource: string;
  readonly link: LinkFacts | undefined;
  /** The last response from memory. */
  memoryHeaders: MemoryHeaders | undefined;
  readonly #token: OpenedToken;
  #etag: string | undefined;
  #isUnversioned: boolean | undefined;
  #found: { readonly place: Place; readonly uri: string } | undefined;

  constructor(kind: GrantKind, token: OpenedToken) {
    const { id, key, auth, use, issuedAt, expiresAt, sessionTag } = token;
    this.#token = token;
    this.id = id;
    this.auth = auth;
    this.use = use;
    this.issuedAt = issuedAt;
    this.expiresAt = expiresAt;
    if (kind === "link") {
      // what is in the seal was made by formatLinkFacts
      const [name, disposition, minter] = JSON.parse(key) as [string, LinkDisposition, Principal?];
      const { sessionId } = minter ?? {};
      this.name = name;
      this.link = { minter, disposition };
      this.sessionTag = sessionId === undefined ? undefined : resourceTag(sessionId);
    } else {
      this.name = key;
      this.sessionTag = sessionTag;
    }
    this.resource = resourceTag(this.name);
  }

  /** True if storage named no etag when the grant was issued. */
  isUnversioned(): boolean {
    return (this.#isUnversioned ??= this.#token.etagBound && this.#token.matchesEtag(unversioned));
  }

  matchesEtag(etag: string | undefined): boolean {
    if (etag !== undefined && etag === this.#etag) return true;
    if (!this.#token.matchesEtag(etag)) return false;
    this.#etag = etag;
    return true;
  }

  matchesPrincipal(principal: Principal): boolean {
    return this.#token.matchesPrincipal(principal);
  }

  /** The resource and its canonical URI. Throws `not_found` for a mount that is gone. */
  resourceIn(mounts: Mounts): { readonly place: Place; readonly uri: string } {
    if (!this.#found) {
      const place = mounts.placeNamed(this.name);
      this.#found = { place, uri: place.mount.mapper.toUri(place.key) };
    }
    return this.#found;
  }
}

/** How long an opened token is remembered. */
const keptMs = 1_000;
const maxKept = 256;

interface KeptGrant {
  readonly grant: OpenGrant;
  /** The key that it was opened with. */
  readonly sealingKey: Uint8Array | undefined;
  readonly until: number;
}

/**
 * Opens sealed tokens of one kind, and remembers for a second what it opened: clients that fetch one object in
 * ranges send the same token many times a second. Everything that can change is still checked each
 * time: the key, expiry, principal, access, version and claim.
 */
export class SealedGrants {
  readonly #kind: GrantKind;
  readonly #sealer: Sealer;
  readonly #keyOf: (token: string) => Uint8Array | undefined;
  readonly #kept = new Map<string, KeptGrant>();

  constructor(kind: GrantKind, sealer: Sealer, keys: KeyRing) {
    this.#kind = kind;
    this.#sealer = sealer;
    const info = `sluice/v1/${kind}`;
    // characters 3 and 4 of a token name its key; a replaced ring derives another array, also for the same name
    this.#keyOf = (token) => keys.derive(token.slice(3, 5), info);
  }

  open(token: string, now: number): OpenGrant {
    const entry = this.#kept.get(token);
    if (
      entry &&
      now < entry.until &&
      !isExpired(entry.grant.expiresAt, now) &&
      entry.sealingKey === this.#keyOf(token)
    )
      return entry.grant;
    this.#kept.delete(token);
    const grant = new OpenGrant(this.#kind, this.#sealer.unseal(this.#kind, token, { now }));
    if (this.#kept.size >= maxKept) this.#kept.delete(this.#kept.keys().next().value!);
    this.#kept.set(token, { grant, sealingKey: this.#keyOf(token), until: now + keptMs });
    return grant;
  }
}
