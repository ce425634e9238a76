import {
  clockSkewMs,
  resourceTag,
  SluiceError,
  tokenLifetimes,
  type Principal,
} from "@sluice/core";
import type { GrantSelector } from "@sluice/state";
import { tagOf, type SluiceParts } from "../options/sluice-parts.ts";

/** Which download URLs to withdraw. */
export type Revocation =
  /** The one with this token: the last segment of the URL. */
  | { readonly token: string }
  /** The one with this id, as audit records name it. */
  | { readonly grant: string }
  /** Every one that is bound to this principal, in whichever session. */
  | { readonly principal: Principal }
  /** Every one for this resource, whoever has it. */
  | { readonly resource: string };

/** Withdraws grants in every process that shares the store. */
export async function revoke(parts: SluiceParts, revocation: Revocation): Promise<void> {
  if (parts.options.grant?.revocable === false)
    throw new SluiceError(
      "unsupported",
      "sluice: revoke: grant.revocable is false, and nothing would notice; take a key out of the ring instead",
    );
  const now = Date.now();
  const selector = await selectorOf(parts, revocation, now);
  if (!selector) return;
  // a store that does not say counts as shared
  const shared: unknown = parts.state.shared;
  await parts.state.revoke(selector, {
    // what was made up to now is meant, also by another process whose clock is ahead
    now: shared === false && !("id" in selector) ? now : now + clockSkewMs,
    ttlMs: tokenLifetimes.download.bound.maxTtlMs,
  });
}

async function selectorOf(
  { grants, mapper }: SluiceParts,
  revocation: Revocation,
  now: number,
): Promise<GrantSelector | undefined> {
  if (Object.keys(revocation).length !== 1)
    throw new TypeError("sluice: revoke: name one token, grant, principal or resource");
  if ("grant" in revocation) return { id: revocation.grant };
  if ("principal" in revocation) return { principal: tagOf(revocation.principal)! };
  if ("resource" in revocation) return { resource: resourceTag(mapper.toKey(revocation.resource)) };
  try {
    return { id: (await grants.open(revocation.token, now)).id };
  } catch (error) {
    // what is over needs no revocation
    if (SluiceError.is(error) && error.code === "expired") return undefined;
    throw error;
  }
}
