import { resourceTag, SluiceError, tokenLifetimes, type Principal } from "@sluice/core";
import { clockSkewMs } from "@sluice/core/internal";
import type { GrantSelector, StateStore } from "@sluice/state";
import { tagOf } from "../access/principal.ts";
import type { Mounts } from "../storage/mounts.ts";
import type { Grants } from "./grants.ts";
import type { OpenGrant } from "./open-grant.ts";

/** Which download URLs and links to withdraw. */
export type Revocation =
  /** The one with this token: the last segment of the URL. */
  | { readonly token: string }
  /** The one with this id, as audit records name it. */
  | { readonly grant: string }
  /** Every one that is bound to this principal or acts for it, in all its sessions. */
  | { readonly principal: Principal }
  /** Every one for this resource, of all principals. */
  | { readonly resource: string };

interface RevokeOptions {
  readonly grants: Grants;
  readonly mounts: Mounts;
  readonly state: StateStore;
  /** False: bound `window` URLs are redeemed without the store. */
  readonly revocable: boolean | undefined;
}

/** Withdraws grants in every process that shares the store. */
export async function revoke(options: RevokeOptions, revocation: Revocation): Promise<void> {
  const { state, revocable } = options;
  if (revocable === false)
    throw new SluiceError(
      "unsupported",
      "sluice: revoke: grant.revocable is false, so URLs are redeemed without the store; take a key out of the ring instead",
    );
  const now = Date.now();
  const selector = await selectorOf(options, revocation, now);
  if (!selector) return;
  // a store that does not say counts as shared
  const shared: unknown = state.shared;
  await state.revoke(selector, {
    // covers URLs of another process whose clock is ahead; an id names one URL, so a later time withdraws no other
    now: shared === false && !("id" in selector) ? now : now + clockSkewMs,
    ttlMs: longestMs,
  });
}

/** The longest life of any grant, whatever the options of this process are: another one may have made it. */
const longestMs: number = Math.max(
  tokenLifetimes.download.bound.maxTtlMs,
  tokenLifetimes.link.self.maxTtlMs,
);

async function selectorOf(
  { grants, mounts }: RevokeOptions,
  revocation: Revocation,
  now: number,
): Promise<GrantSelector | undefined> {
  if (Object.keys(revocation).length !== 1)
    throw new TypeError("sluice: revoke: name one token, grant, principal or resource");
  if ("grant" in revocation) return { id: revocation.grant };
  if ("principal" in revocation) return { principal: tagOf(revocation.principal)! };
  if ("resource" in revocation)
    return { resource: resourceTag(mounts.placeOf(revocation.resource).name) };
  try {
    return { id: (await openedBy(grants, revocation.token, now)).id };
  } catch (error) {
    // an expired token needs no revocation
    if (SluiceError.is(error) && error.code === "expired") return undefined;
    throw error;
  }
}

/** Opens the token of a download URL or of a link. */
async function openedBy(grants: Grants, token: string, now: number): Promise<OpenGrant> {
  try {
    return await grants.open("download", token, now);
  } catch (error) {
    if (!SluiceError.is(error) || error.code !== "not_found") throw error;
    return grants.open("link", token, now);
  }
}
