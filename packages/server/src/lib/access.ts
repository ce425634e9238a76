import { SluiceError, type Principal } from "@sluice/core";

/** What somebody wants to do with a resource. `stream` is asked for the call and for each redemption. */
export type AccessAction = "list" | "read" | "stream";

/**
 * - `allow`
 * - `hide`: answer as if the resource did not exist
 * - `deny`: answer that it is forbidden, which admits that it exists
 */
export type AccessDecision = "allow" | "hide" | "deny";

/**
 * Decides whether a principal may do something with a resource. The principal is `undefined` for
 * the anonymous. Without a principal resolver it stands for whatever bearer token came, which
 * nobody may have verified: rules need a resolver. An error counts as a fault, never as permission.
 */
export type AccessRule = (
  principal: Principal | undefined,
  uri: string,
  action: AccessAction,
) => AccessDecision | Promise<AccessDecision>;

/** Throws `not_found` or `permission_denied` unless the decision is `allow`; anything unknown hides. */
export function ensureAllowed(decision: AccessDecision): void {
  if (decision === "allow") return;
  if (decision === "deny")
    throw new SluiceError("permission_denied", "sluice: access rules deny it");
  throw new SluiceError("not_found", "sluice: access rules hide it");
}
