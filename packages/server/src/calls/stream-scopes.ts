import type { ReadCall } from "../resources/resource-reader.ts";
import { revisionOf } from "./request-caller.ts";
import { FaultError, rpcFault } from "../faults/rpc-fault.ts";
import { readChallenge } from "./sdk-handlers.ts";

/**
 * Refuses a caller whose access token lacks the scopes for reading a resource. The SDK asks for scopes at `resources/read` only;
 * without this, streaming would go around them.
 */
export async function ensureStreamScopes(
  { mcp, ctx }: Pick<ReadCall, "mcp" | "ctx">,
  uri: string,
  resourceMetadataUrl: string | undefined,
): Promise<void> {
  const challenge = await readChallenge(mcp, ctx, uri);
  if (!challenge) return;
  const metadataUrl = ctx.http?.authInfo?.resourceMetadataUrl ?? resourceMetadataUrl;
  throw new FaultError(
    rpcFault("forbidden", revisionOf(mcp), {
      uri,
      status: 403,
      challenge: [
        'Bearer error="insufficient_scope"',
        `scope="${challenge.scopes.join(" ")}"`,
        ...(metadataUrl === undefined ? [] : [`resource_metadata="${encodeURI(metadataUrl)}"`]),
      ].join(", "),
    }),
  );
}
