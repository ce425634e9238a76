import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { callerOf, type Host } from "@sluice/server/transport";
import { userOf } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";
import type { AskingCall } from "./confirm-answer.ts";

/** The caller of a tool that asks for files. Rejects with `unauthenticated` for one that gets none. */
export async function identifyAsker(
  host: Pick<Host, "identify">,
  mcp: McpServer,
  ctx: ServerContext,
): Promise<Pick<AskingCall, "principal" | "owner">> {
  const { principal, mayMint, owner } = await host.identify(callerOf(ctx, mcp));
  if (!mayMint) throw uploadError("unauthenticated", "the caller is not authenticated");
  return { principal: userOf(principal), owner };
}
