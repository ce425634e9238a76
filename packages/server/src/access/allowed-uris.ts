import type { Principal } from "@sluice/core";
import type { AccessAction } from "./access.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";

/** Those of some URIs with which a principal may do something, in their order. */
export async function allowedUris(
  { access }: SluiceParts,
  principal: Principal | undefined,
  { uris, action }: { uris: readonly string[]; action: AccessAction },
): Promise<string[]> {
  const decisions = await access.decideAll(principal, uris, action);
  return uris.filter((_, at) => decisions[at] === "allow");
}
