import type { McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import type { Callers } from "../access/principal.ts";
import { toolError } from "../faults/advice.ts";
import { callerOf } from "./request-caller.ts";
import { callInV2, type AnyCall } from "./sdk-v1.ts";

/** Gives the principal of the call that a handler is in. */
export type PrincipalOfCall = (call: AnyCall) => Promise<Principal | undefined>;

interface PrincipalParts {
  readonly callers: Callers;
  /** Throws a `TypeError` for a server that another Sluice is attached to. */
  readonly ensureOwn: (mcp: McpServer) => void;
  readonly onError: (error: unknown) => void;
}

/** The principal of a call, as storage and rules get it. An error has a message that a tool may let through. */
export async function principalOfCall(
  { callers, ensureOwn, onError }: PrincipalParts,
  call: AnyCall,
): Promise<Principal | undefined> {
  const { mcp, ctx } = callInV2(call);
  ensureOwn(mcp);
  try {
    const { principal } = await callers.identify(callerOf(ctx, mcp));
    return principal;
  } catch (error) {
    throw toolError(error, { about: "caller", onError });
  }
}
