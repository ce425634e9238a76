import type { Era } from "@sluice/core/wire";
import { rpcFault, type RpcFault } from "../sdk/rpc-fault.ts";

/** A bearer challenge (RFC 6750 §3, RFC 9728 §5.1). */
export function formatChallenge(resourceMetadataUrl: string | undefined): string {
  return resourceMetadataUrl === undefined
    ? "Bearer"
    : `Bearer resource_metadata="${encodeURI(resourceMetadataUrl)}"`;
}

/** The answer to a caller that has to sign in: 401 with a challenge, by which SDKs begin to (RFC 9728 §5.1). */
export function signInFault(resourceMetadataUrl: string | undefined, revision: Era): RpcFault {
  const challenge = formatChallenge(resourceMetadataUrl);
  return rpcFault("forbidden", revision, { status: 401, challenge });
}
