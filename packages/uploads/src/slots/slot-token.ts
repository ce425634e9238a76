import {
  createSealer,
  SluiceError,
  tokenLifetimes,
  type OpenedToken,
  type Principal,
  type Sealer,
} from "@sluice/core";
import { tagOf, type Host } from "@sluice/server/internal";
import { createTokenStore, type TokenStore } from "@sluice/state";
import { isStoredToken } from "@sluice/state/internal";
import { newId, type ReserveOptions, type SlotTerms } from "./slots.ts";

/** Path of slots whose URL carries what it permits, sealed. */
export const slotsPath = "/uploads/";
/** Path of slots whose URL is a stored token: each is itself the permission to send. */
export const shortSlotsPath = "/u/";

/** A slot as its token describes it. */
export interface OpenSlot {
  readonly uploadId: string;
  /** Whose files they will be, see {@link ownerOf}. */
  readonly owner: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly terms: SlotTerms;
  /** Maximum bytes of a step that senders are told, whatever the token says. */
  readonly maxStepBytes?: number | undefined;
}

/** A slot that a request presents. */
export interface PresentedSlot extends OpenSlot {
  /** `bound`: only its principal may send. */
  readonly auth: "bound" | "self";
  matchesPrincipal(principal: Principal): boolean;
}

/** Bounds of all slots of an endpoint: of a file, and of a step of one as senders are told. */
interface SlotBounds {
  readonly maxBytes: number;
  readonly maxStepBytes?: number | undefined;
}

/** Makes and opens the tokens of the slots of one endpoint. */
export class SlotTokens {
  readonly #audience: string;
  readonly #sealer: Sealer;
  readonly #store: TokenStore;
  readonly #isStored: boolean;
  readonly #bounds: SlotBounds;

  constructor(
    { keys, stores, tokens, endpoint }: Pick<Host, "keys" | "stores" | "tokens" | "endpoint">,
    bounds: SlotBounds,
  ) {
    this.#audience = endpoint.url;
    this.#sealer = createSealer({ keys, audience: endpoint.url });
    this.#store = createTokenStore({ keys, audience: endpoint.url, state: stores.state });
    this.#isStored = tokens === "stored";
    this.#bounds = bounds;
  }

  /** Makes a slot and its URL. Rejects with a `TypeError` or `RangeError` for invalid terms, and errors of the store. */
  async issue(
    principal: Principal | undefined,
    terms: SlotTerms,
    { ttlMs, selfAuthenticating = false, share }: ReserveOptions,
  ): Promise<{ readonly url: string; readonly slot: OpenSlot }> {
    const holder = selfAuthenticating ? undefined : (userOf(principal) ?? principal);
    const { maxTtlMs } = tokenLifetimes.upload[holder ? "bound" : "self"];
    const slot = newSlot(principal, terms, this.#bounds.maxBytes);
    const claims = {
      key: encodeSlot(slot),
      ttlMs: ttlMs === undefined ? undefined : Math.min(ttlMs, maxTtlMs),
      principal: holder,
    };
    const isShort = this.#isStored && !holder;
    const { token, expiresAt } = isShort
      ? await this.#store.issue("upload", claims, { owner: share ?? tagOf(principal) ?? "" })
      : this.#sealer.seal("upload", claims);
    const url = `${this.#audience}${isShort ? shortSlotsPath : slotsPath}${token}`;
    return { url, slot: { ...slot, expiresAt } };
  }

  /** A slot without a URL: for a file that is here already. */
  createUnsent(principal: Principal | undefined, terms: SlotTerms): OpenSlot {
    const { ttlMs } = tokenLifetimes.upload[principal ? "bound" : "self"];
    // whole seconds, as tokens have them
    const expiresAt = Math.floor((Date.now() + ttlMs) / 1_000) * 1_000;
    return { ...newSlot(principal, terms, this.#bounds.maxBytes), expiresAt };
  }

  /** Throws `not_found` or `expired`. */
  openSealed(token: string, now: number): PresentedSlot {
    return this.#presented(this.#sealer.unseal("upload", token, { now }));
  }

  /** Rejects with `not_found`, `expired` and errors of the store. */
  async openStored(token: string, now: number): Promise<PresentedSlot> {
    if (!this.#isStored) throw new SluiceError("not_found", "uploads: slots have sealed URLs here");
    const slot = this.#presented(await this.#store.open("upload", token, { now }));
    // the route of short URLs asks for no principal, so a bound slot must not open there
    if (slot.auth !== "self") throw new SluiceError("not_found", "uploads: the slot is bound");
    return slot;
  }

  /** Opens a URL of {@link SlotTokens.issue}; rejects as the other two. */
  async openUrl(url: string, now: number): Promise<PresentedSlot> {
    const token = url.slice(url.lastIndexOf("/") + 1);
    return isStoredToken(token) ? this.openStored(token, now) : this.openSealed(token, now);
  }

  #presented(opened: OpenedToken): PresentedSlot {
    return {
      ...decodeSlot(opened.key),
      auth: opened.auth,
      expiresAt: opened.expiresAt,
      maxStepBytes: this.#bounds.maxStepBytes,
      matchesPrincipal: (principal) => opened.matchesPrincipal(principal),
    };
  }
}

function newSlot(
  principal: Principal | undefined,
  terms: SlotTerms,
  maxBytes: number,
): Omit<OpenSlot, "expiresAt"> {
  return {
    uploadId: newId(),
    owner: ownerOf(principal),
    terms: cappedTerms(terms, maxBytes),
  };
}

/**
 * Names the owner of files in storage keys and counters: nothing in it can be read. All sessions of
 * one subject are one owner.
 */
export function ownerOf(principal: Principal | undefined): string {
  return tagOf(principal) ?? anonymous;
}

/** The tag of an owner, for records and limits; absent for the anonymous. */
export function tagOfOwner(owner: string): string | undefined {
  return owner === anonymous ? undefined : owner;
}

const anonymous = "anonymous";

/** A principal without its session, which no upload belongs to: it comes in another request. Absent for a mere session. */
export function userOf(principal: Principal | undefined): Principal | undefined {
  if (!principal || principal.subject === "") return undefined;
  const { sessionId: _session, ...user } = principal;
  return user;
}

function cappedTerms({ accept, maxBytes, maxFiles, sha256 }: SlotTerms, limit: number): SlotTerms {
  for (const [name, value] of Object.entries({ maxBytes, maxFiles }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`uploads: reserve: ${name} must be a whole number from 1`);
  if (maxFiles > maxFilesOfASlot)
    throw new RangeError(`uploads: reserve: maxFiles must be at most ${maxFilesOfASlot}`);
  for (const entry of accept)
    if (!isAcceptEntry(entry))
      throw new TypeError(
        `uploads: reserve: accept ${JSON.stringify(entry)} is not a media type, range or .extension`,
      );
  return {
    accept: accept.map((entry) => entry.toLowerCase()),
    maxBytes: Math.min(maxBytes, limit),
    maxFiles,
    sha256,
  };
}

const maxFilesOfASlot = 100;
const token = "[!#$%&'*+.^_`|~0-9a-z-]+";
const acceptGrammar = new RegExp(
  String.raw`^(?:\*/\*|(?!\.)${token}/(?:\*|${token})|\.[^\s/\\]{1,31})$`,
  "i",
);

/** True for a media type, a range or an extension. */
export function isAcceptEntry(text: string): boolean {
  return acceptGrammar.test(text);
}

const maxEncodedBytes = 1_024;

function encodeSlot({ uploadId, owner, terms }: Omit<OpenSlot, "expiresAt">): string {
  const { maxBytes, maxFiles, sha256 = "", accept } = terms;
  const text = JSON.stringify([uploadId, owner, maxBytes, maxFiles, sha256, ...accept]);
  if (new TextEncoder().encode(text).length > maxEncodedBytes)
    throw new RangeError(
      "uploads: reserve: accept is too long for a slot; name ranges such as image/* instead of types",
    );
  return text;
}

function decodeSlot(text: string): Omit<OpenSlot, "expiresAt"> {
  // what is in the seal was made by encodeSlot
  const [uploadId, owner, maxBytes, maxFiles, sha256, ...accept] = JSON.parse(text) as [
    string,
    string,
    number,
    number,
    string,
    ...string[],
  ];
  return {
    uploadId,
    owner,
    terms: { accept, maxBytes, maxFiles, sha256: sha256 === "" ? undefined : sha256 },
  };
}
