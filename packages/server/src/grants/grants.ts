import { createSealer, tokenLifetimes, type IssuedToken, type KeyRing } from "@sluice/core";
import { createTokenStore, isStoredToken, type StateStore } from "@sluice/state";
import type { BindSession } from "../access/bound-sessions.ts";
import type { Identity } from "../access/principal.ts";
import { createGrantOpener, toOpenGrant, unversioned, type OpenGrant } from "./recent-grants.ts";
import type { GrantOptions } from "../options/sluice-options.ts";

/** Makes the download URLs of one Sluice, and opens them. */
export interface Grants {
  /** Opens a token; throws, or rejects with, `not_found`, `expired`, and what the store says where the token is stored. */
  open(token: string, now: number): OpenGrant | Promise<OpenGrant>;
  /** Whether the store has a say in it: how often it is used, and whether it or its session was withdrawn. */
  asksStore(grant: OpenGrant): boolean;
  /** A download URL for a key; `undefined` when this identity gets none. Rejects with what the store says. */
  mint(identity: Identity, key: string, etag: string | undefined): Promise<MintedGrant | undefined>;
}

/** A download URL and its token's facts. */
interface MintedGrant extends IssuedToken {
  readonly url: string;
}

interface GrantParts {
  readonly keys: KeyRing;
  readonly state: StateStore;
  readonly bindSession: BindSession;
  /** URL of the endpoint. */
  readonly endpoint: string;
  readonly grant: GrantOptions;
}

/** Puts sealed or stored tokens behind one face; a `TypeError` or `RangeError` for options that cannot work. */
export function createGrants({ keys, state, bindSession, endpoint, grant }: GrantParts): Grants {
  ensureGrant(grant);
  const { tokens = "sealed", revocable = true, use } = grant;
  const sealer = createSealer({ keys, audience: endpoint });
  const stored = createTokenStore({ keys, audience: endpoint, state });
  const unseal = createGrantOpener(sealer, keys);
  // elsewhere what looks like one costs the store nothing
  const opensStored = tokens === "stored";
  return {
    open: (token, now) =>
      opensStored && isStoredToken(token)
        ? stored.open("download", token, { now }).then(toOpenGrant)
        : unseal(token, now),
    // nothing but the store ends a URL that works for whoever has it
    asksStore: ({ auth, use: made }) => revocable || auth === "self" || made !== "window",
    async mint(identity, key, etag) {
      const { principal, mayMint, maxTtlMs, owner = "" } = identity;
      const auth = principal ? "bound" : "self";
      const { ttlMs: defaultTtlMs, maxTtlMs: longest } = tokenLifetimes.download[auth];
      const ttlMs = Math.min(grant.ttlMs ?? defaultTtlMs, longest, maxTtlMs);
      if (!mayMint || ttlMs < 1_000) return undefined;
      const terms = {
        key,
        use: use ?? (principal ? "window" : "lease"),
        ttlMs,
        ...(principal && { principal }),
        etag: etag ?? unversioned,
      } as const;
      if (revocable) await bindSession(identity);
      const minted = opensStored
        ? await stored.issue("download", terms, { owner })
        : sealer.seal("download", terms);
      return { ...minted, url: `${endpoint}/streams/${minted.token}` };
    },
  };
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
