import type { Era } from "@sluice/core/wire";
import { formatChallenge } from "../grants/redeem.ts";
import { rpcFault, type RpcFault } from "../sdk/rpc-fault.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";

/** The answer to a caller that has to sign in: 401 with a challenge, by which SDKs begin to (RFC 9728 §5.1). */
export function signInFault({ options }: Pick<SluiceParts, "options">, era: Era): RpcFault {
  const challenge = formatChallenge(options.resourceMetadataUrl);
  return rpcFault("forbidden", era, { status: 401, challenge });
}
