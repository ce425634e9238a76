import {
  definedMembers,
  createSealer,
  tokenLifetimes,
  type KeyRing,
  type Principal,
} from "@sluice/core";
import { tagOf } from "@sluice/server/transport";
import { newId } from "./random-id.ts";
import type { ReserveOptions, SlotTerms } from "./slots.ts";

/** Path of the slots below the endpoint. */
export const slotsPath = "/uploads/";

/** A slot as its token describes it. */
export interface OpenSlot {
  readonly uploadId: string;
  /** Whose files they will be, see {@link ownerOf}. */
  readonly owner: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly terms: SlotTerms;
}

/** A slot that a request presents. */
export interface PresentedSlot extends OpenSlot {
  /** `bound`: only its principal may send. */
  readonly auth: "bound" | "self";
  matchesPrincipal(principal: Principal): boolean;
}

/** Makes and opens the tokens of slots. */
export interface SlotSealer {
  seal(
    principal: Principal | undefined,
    terms: SlotTerms,
    options: ReserveOptions,
  ): { readonly token: string; readonly slot: OpenSlot };
  /** Throws `not_found` or `expired`. */
  open(token: string, now: number): PresentedSlot;
}

/** Seals for one endpoint; no slot takes files of more than `maxBytes`. */
export function createSlotSealer(options: {
  readonly keys: KeyRing;
  readonly endpoint: string;
  readonly maxBytes: number;
}): SlotSealer {
  const sealer = createSealer({ keys: options.keys, audience: options.endpoint });
  return {
    seal(principal, asked, { ttlMs, selfAuthenticating = false }) {
      const terms = boundTerms(asked, options.maxBytes);
      const holder = selfAuthenticating ? undefined : (userOf(principal) ?? principal);
      const uploadId = newId();
      const owner = ownerOf(principal);
      const { maxTtlMs } = tokenLifetimes.upload[holder ? "bound" : "self"];
      const { token, expiresAt } = sealer.seal(
        "upload",
        definedMembers({
          key: encodeHandle({ uploadId, owner, terms }),
          ttlMs: ttlMs === undefined ? undefined : Math.min(ttlMs, maxTtlMs),
          principal: holder,
        }),
      );
      return { token, slot: { uploadId, owner, expiresAt, terms } };
    },
    open(token, now) {
      const sealed = sealer.unseal("upload", token, { now });
      return {
        ...decodeHandle(sealed.key),
        auth: sealed.auth,
        expiresAt: sealed.expiresAt,
        matchesPrincipal: (principal) => sealed.matchesPrincipal(principal),
      };
    },
  };
}

/**
 * Names the owner of files in storage keys and counters: nothing in it can be read. The sessions of
 * one subject have one.
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

function boundTerms({ accept, maxBytes, maxFiles, sha256 }: SlotTerms, most: number): SlotTerms {
  for (const [name, value] of Object.entries({ maxBytes, maxFiles }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`uploads: reserve: ${name} must be a whole number from 1`);
  if (maxFiles > maxFilesOfASlot)
    throw new RangeError(`uploads: reserve: maxFiles must be at most ${maxFilesOfASlot}`);
  for (const entry of accept)
    if (!acceptGrammar.test(entry))
      throw new TypeError(
        `uploads: reserve: accept ${JSON.stringify(entry)} is no media type, range or .extension`,
      );
  return {
    accept: accept.map((entry) => entry.toLowerCase()),
    maxBytes: Math.min(maxBytes, most),
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
const maxHandleBytes = 1_024;

function encodeHandle({ uploadId, owner, terms }: Omit<OpenSlot, "expiresAt">): string {
  const { maxBytes, maxFiles, sha256 = "", accept } = terms;
  const handle = JSON.stringify([uploadId, owner, maxBytes, maxFiles, sha256, ...accept]);
  if (new TextEncoder().encode(handle).length > maxHandleBytes)
    throw new RangeError(
      "uploads: reserve: accept is too long for a slot; name ranges such as image/* instead of types",
    );
  return handle;
}

function decodeHandle(handle: string): Omit<OpenSlot, "expiresAt"> {
  // what is in the seal was made by encodeHandle
  const [uploadId, owner, maxBytes, maxFiles, sha256, ...accept] = JSON.parse(handle) as [
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
