import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { principalTag } from "@sluice/core";
import type { Caller, Sluice } from "@sluice/server";
import { notesOf } from "@sluice/server/internal";

/** A request to the endpoint or to a link of it. */
export interface SessionRequest {
  readonly request: Request;
  /** `Mcp-Session-Id`; empty if there is none. */
  readonly sessionId: string;
  readonly mcpOptions: McpHandlerRequestOptions | undefined;
}

/** An identified caller. */
export type SessionMember = Awaited<ReturnType<Sluice["host"]["identify"]>>;

/** The caller of a request, for `identify`. */
export function callerOf({ request, sessionId, mcpOptions }: SessionRequest): Caller {
  return {
    address: notesOf(request).address,
    authInfo: mcpOptions?.authInfo,
    sessionId,
    header: (name: string) => request.headers.get(name) ?? undefined,
  };
}

/** The caller in its session; `undefined` for one without a principal, or that the handler itself has to refuse. */
export async function findMember(
  { host }: Pick<Sluice, "host">,
  asked: SessionRequest,
): Promise<SessionMember | undefined> {
  try {
    const member = await host.identify(callerOf(asked));
    return member.principal?.sessionId ? member : undefined;
  } catch {
    return undefined;
  }
}

/** Tag of a member in its session, which owns the streams of its calls. */
export function ownerOf({ principal }: SessionMember): string {
  return principalTag(principal!);
}
