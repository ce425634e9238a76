import type { ObjectInfo } from "@sluice/storage";
import type { Mounts, Place } from "../storage/mounts.ts";
import type { OpenGrant } from "./open-grant.ts";

/** What a redemption finds out that the next one of the same grant finds, too. */
export interface KnownGrant {
  readonly place: Place;
  /** Canonical URI of the resource. */
  readonly uri: string;
  /** The last answer from memory. Another version of the object has another `info`. */
  answer?: KeptAnswer;
}

/** Headers of an answer with a whole object that lies in memory. Its bytes are not here: storage bounds how many it keeps. */
interface KeptAnswer {
  readonly info: ObjectInfo;
  /** Frozen: every answer has the same array. */
  readonly headers: readonly string[];
}

/**
 * Makes what remembers open grants for as long as they are remembered themselves: clients send one token many times a second.
 * Only what cannot change under a grant is in it: no check is skipped. Throws `not_found` for a mount that is gone.
 */
export function createKnownGrants(mounts: Mounts): (grant: OpenGrant) => KnownGrant {
  const known = new WeakMap<OpenGrant, KnownGrant>();
  return (grant) => {
    let one = known.get(grant);
    if (!one) {
      const place = mounts.named(grant.key);
      one = { place, uri: place.mount.mapper.toUri(place.key) };
      known.set(grant, one);
    }
    return one;
  };
}
