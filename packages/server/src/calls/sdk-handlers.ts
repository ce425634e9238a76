import {
  Server,
  type JSONRPCRequest,
  type McpServer,
  type Result,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";

/** A handler of a server, called the way the SDK calls it. */
export type SdkHandler<Answer = Record<string, unknown>> = (
  params: object | undefined,
  ctx: ServerContext,
) => Promise<Answer>;

/** Reaches the SDK's accessor for stored handlers, which it keeps for role classes: `protected`. */
class HandlerAccess extends Server {
  handler(
    this: Server,
    method: string,
  ): ((request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>) | undefined {
    // oxlint-disable-next-line no-underscore-dangle -- the SDK's name
    return (this as HandlerAccess)._getRequestHandler(method);
  }
}

/** The handler that a server has for a method now, if any. */
export function findHandler<Answer = Record<string, unknown>>(
  server: Server,
  method: string,
): SdkHandler<Answer> | undefined {
  const handler = HandlerAccess.prototype.handler.call(server, method);
  if (!handler) return undefined;
  return (params, ctx) => {
    const request = { jsonrpc: "2.0" as const, id: ctx.mcpReq.id, method };
    const copy = definedMembers({ params: params && { ...params } });
    return handler({ ...request, ...copy }, ctx) as Promise<Answer>;
  };
}

/** The handler of a method; a `TypeError` if there is none. */
export function requireHandler<Answer = Record<string, unknown>>(
  server: Server,
  method: string,
): SdkHandler<Answer> {
  const handler = findHandler<Answer>(server, method);
  if (!handler) throw new TypeError(`sluice: this SDK keeps no handler for ${method}`);
  return handler;
}

/** Refuses a caller whose access token lacks scopes for reading; the SDK asks for them at `resources/read` only. */
export async function ensureReadScopes(
  mcp: McpServer,
  ctx: ServerContext,
  uri: string,
): Promise<void> {
  if (await readChallenge(mcp, ctx, uri))
    throw new SluiceError("permission_denied", "sluice: read: the access token lacks scopes");
}

/** The challenge to a caller whose access token lacks scopes for reading a resource; `undefined` when it has all. */
export function readChallenge(
  mcp: McpServer,
  ctx: ServerContext,
  uri: string,
): ReturnType<McpServer["resolveScopeChallenge"]> {
  return mcp.resolveScopeChallenge({
    request: { jsonrpc: "2.0", id: ctx.mcpReq.id, method: "resources/read", params: { uri } },
    ...definedMembers({ authInfo: ctx.http?.authInfo }),
  });
}
