import { isExpired, resourceTag, type KeyRing, type Sealer, type OpenedToken } from "@sluice/core";

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
  const kept = new Map<string, KeptGrant>();
  // characters 3 and 4 of a token name its key; a replaced ring derives another array, also for the same name
  const keyOf = (token: string): unknown => keys.derive(token.slice(3, 5), "sluice/v1/download");

  return (token, now) => {
    const known = kept.get(token);
    if (known && isStillOpen(known, now) && known.key === keyOf(token)) return known.grant;
    kept.delete(token);
    const grant = toOpenGrant(sealer.unseal("download", token, { now }));
    if (kept.size >= maxKept) kept.delete(kept.keys().next().value!);
    kept.set(token, { grant, key: keyOf(token), until: now + keptMs });
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
export function toOpenGrant(grant: OpenedToken): OpenGrant {
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
