import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import type { Callers } from "../access/principal.ts";
import type { Mount } from "../storage/mount.ts";
import { isThereFor } from "../storage/mounts.ts";
import { callerOf } from "../calls/request-caller.ts";

interface AskedCall {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
}

/** True where the caller of a request does not have a mount: the SDK then answers as if it were not configured. */
export type IsAbsent = (mount: Mount, call: AskedCall) => Promise<boolean>;

export function createIsAbsent({ identify }: Callers): IsAbsent {
  return async (mount, { mcp, ctx }) => {
    if (mount.isForAll) return false;
    try {
      const { principal } = await identify(callerOf(ctx, mcp));
      return !isThereFor(mount, principal);
    } catch {
      // the call itself meets the same fault, and answers it
      return false;
    }
  };
}
