import type { AnyCall } from "@sluice/server";
import { callerOf, callInV2, type Host, revisionOf } from "@sluice/server/internal";
import { userOf } from "../slots/slot-token.ts";
import type { DownloadCaller } from "./file-download.ts";
import { faultFor } from "./file-fault.ts";

/** Works for the caller of a handler; what goes wrong becomes an error of the protocol. A wrong call stays a `TypeError`. */
export async function serveCaller<T>(
  host: Pick<Host, "ensureOwn" | "identify" | "addressOf" | "onError">,
  call: AnyCall,
  work: (caller: DownloadCaller) => T | Promise<T>,
): Promise<T> {
  const { mcp, ctx } = callInV2(call);
  host.ensureOwn(mcp);
  try {
    const caller = callerOf(ctx, mcp);
    const identity = await host.identify(caller);
    const { signal } = ctx.mcpReq;
    const owner = userOf(identity.principal);
    const address = host.addressOf(caller);
    return await work({ identity, owner, address, revision: revisionOf(mcp), signal });
  } catch (error) {
    throw faultFor(error, host.onError);
  }
}
