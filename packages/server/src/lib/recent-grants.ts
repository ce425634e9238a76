import { clockSkewMs, resourceTag, type Sealer, type UnsealedToken } from "@sluice/core";

/** How long a token stays open: so long may a key that was withdrawn still count. */
const keptMs = 1_000;
const maxKept = 256;

/** A grant as its token says, with what is asked of it again and again worked out once. */
export interface OpenGrant extends UnsealedToken {
  /** Opaque tag of the object, for the state store. */
  readonly resource: string;
}

/**
 * Opens tokens, and remembers for a second what it opened: clients that fetch one object in
 * ranges send the same token many times a second. Everything that can change is still asked each
 * time: expiry, principal, access, version and claim.
 */
export function createGrantOpener(sealer: Sealer): (token: string, now: number) => OpenGrant {
  const kept = new Map<string, { readonly grant: OpenGrant; readonly until: number }>();

  return (token, now) => {
    const known = kept.get(token);
    if (known && now < known.until && now < known.grant.expiresAt + clockSkewMs) return known.grant;
    kept.delete(token);
    const grant = withMemory(sealer.unseal("download", token, { now }));
    if (kept.size >= maxKept) kept.delete(kept.keys().next().value!);
    kept.set(token, { grant, until: now + keptMs });
    return grant;
  };
}

function withMemory(grant: UnsealedToken): OpenGrant {
  let matched: string | undefined;
  return {
    ...grant,
    resource: resourceTag(grant.handle),
    matchesRevision(etag) {
      if (etag !== undefined && etag === matched) return true;
      if (!grant.matchesRevision(etag)) return false;
      matched = etag;
      return true;
    },
  };
}
