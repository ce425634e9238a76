import { SluiceError, type Principal } from "@sluice/core";
import { hiddenFault } from "../faults/storage-fault.ts";

/**
 * What a principal wants to do with a resource. `subscribe` is asked for the call and before each
 * notification, `stream` for the call and for each redemption.
 */
export type AccessAction = "list" | "read" | "subscribe" | "stream";

/**
 * - `allow`
 * - `hide`: answer as if the resource did not exist
 * - `deny`: answer that it is forbidden, which admits that it exists
 */
export type AccessDecision = "allow" | "hide" | "deny";

/**
 * Decides whether a principal may do something with a resource. The principal is `undefined` for the anonymous. Without
 * a principal resolver it is derived from any bearer token, verified or not: set a resolver whenever you set rules. An
 * error counts as a fault, never as permission.
 *
 * `scopes` and `claims` are those of the request that asks: at the redemption of a download URL, of the request that
 * redeems it. A self-authenticating URL has no principal. Before a notification they are of the last request that listed, read
 * or subscribed in its session, or of the request that opened its stream.
 */
export type AccessRule = (
  principal: Principal | undefined,
  uri: string,
  action: AccessAction,
) => AccessDecision | Promise<AccessDecision>;

/**
 * The same for the URIs of one page of a list, in one call: gives as many decisions, in the same
 * order.
 */
export type AccessPageRule = (
  principal: Principal | undefined,
  uris: readonly string[],
  action: AccessAction,
) => readonly AccessDecision[] | Promise<readonly AccessDecision[]>;

/** Asks the rules of one Sluice. */
export interface Access {
  /** False when every caller may do everything. */
  readonly hasRules: boolean;
  readonly decide: AccessRule;
  /** One decision for each URI, in the same order. */
  decideAll(
    principal: Principal | undefined,
    uris: readonly string[],
    action: AccessAction,
  ): Promise<readonly AccessDecision[]>;
}

/** How many decisions of a page are waited for at a time, where a rule takes one URI. */
const decisionsAtOnce = 16;

/** Puts the rules together. A page rule without a rule for one URI is a `TypeError`. */
export function createAccess(rule?: AccessRule, pageRule?: AccessPageRule): Access {
  if (pageRule && !rule)
    throw new TypeError("createSluice: accessPage also needs access, which decides the rest");
  const decide: AccessRule = rule ?? (() => "allow");
  return {
    hasRules: rule !== undefined,
    decide,
    async decideAll(principal, uris, action) {
      if (!rule) return uris.map(() => "allow");
      if (!pageRule) return decideEach(uris, (uri) => rule(principal, uri, action));
      const decisions = await pageRule(principal, uris, action);
      if (decisions.length !== uris.length)
        throw new SluiceError(
          "internal",
          `sluice: accessPage gave ${decisions.length} decisions for ${uris.length} URIs; give one for each`,
        );
      return decisions;
    },
  };
}

async function decideEach(
  uris: readonly string[],
  decide: (uri: string) => AccessDecision | Promise<AccessDecision>,
): Promise<AccessDecision[]> {
  const decisions: AccessDecision[] = [];
  let next = 0;
  async function work(): Promise<void> {
    while (next < uris.length) {
      const at = next++;
      const decision = decide(uris[at]!);
      // a synchronous rule must not cost a turn of the event loop
      decisions[at] = decision instanceof Promise ? await decision : decision;
    }
  }
  await Promise.all(Array.from({ length: Math.min(decisionsAtOnce, uris.length) }, work));
  return decisions;
}

/** Throws what a client may learn unless the decision is `allow`; anything unknown hides. */
export function ensureAllowed(decision: AccessDecision): void {
  if (decision === "allow") return;
  if (decision === "deny")
    throw new SluiceError("permission_denied", "sluice: access rules deny it");
  throw hiddenFault;
}

/** Those of some URIs with which a principal may do something, in their order. */
export async function allowedUris(
  access: Access,
  principal: Principal | undefined,
  { uris, action }: { uris: readonly string[]; action: AccessAction },
): Promise<string[]> {
  const decisions = await access.decideAll(principal, uris, action);
  return uris.filter((_, at) => decisions[at] === "allow");
}
