import {
  clockSkewMs,
  resourceTag,
  type KeyRing,
  type Sealer,
  type OpenedToken,
} from "@sluice/core";

/** How long a token stays open. */
const keptMs = 1_000;
const maxKept = 256;

/** A grant as its token says, with what is asked of it again and again worked out once. */
export interface OpenGrant extends OpenedToken {
  /** Opaque tag of the object, for the state store. */
  readonly resource: string;
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
  const kept = new Map<string, Kept>();
  // another array once the ring was replaced, even by one with a key of that name
  const keyOf = (token: string): unknown => keys.derive(token.slice(3, 5), "sluice/v1/download");

  return (token, now) => {
    const known = kept.get(token);
    if (known && isGood(known, now) && known.key === keyOf(token)) return known.grant;
    kept.delete(token);
    const grant = toOpenGrant(sealer.unseal("download", token, { now }));
    if (kept.size >= maxKept) kept.delete(kept.keys().next().value!);
    kept.set(token, { grant, key: keyOf(token), until: now + keptMs });
    return grant;
  };
}

interface Kept {
  readonly grant: OpenGrant;
  /** What it was opened with. */
  readonly key: unknown;
  readonly until: number;
}

function isGood({ grant, until }: Kept, now: number): boolean {
  return now < until && now < grant.expiresAt + clockSkewMs;
}

/** The etag of a grant for an object whose storage named none when it was issued; no etag has a space. */
export const unversioned: string = " ";

/** Whether a grant was issued for an object of no version. */
export function isUnversioned(grant: OpenGrant): boolean {
  return grant.etagBound && grant.matchesEtag(unversioned);
}

/** A grant that works out once what is asked of it again and again. */
export function toOpenGrant(grant: OpenedToken): OpenGrant {
  let matched: string | undefined;
  return {
    ...grant,
    resource: resourceTag(grant.key),
    matchesEtag(etag) {
      if (etag !== undefined && etag === matched) return true;
      if (!grant.matchesEtag(etag)) return false;
      matched = etag;
      return true;
    },
  };
}
