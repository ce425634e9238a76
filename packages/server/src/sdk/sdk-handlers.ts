import {
  Server,
  type JSONRPCRequest,
  type McpServer,
  type Result,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { definedMembers, SluiceError } from "@sluice/core";

/** A handler as the SDK keeps it: from a JSON-RPC request to a result. */
export type SdkHandler = (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>;

/** Reaches the SDK's accessor for stored handlers, which it keeps for role classes: `protected`. */
class HandlerAccess extends Server {
  handler(this: Server, method: string): SdkHandler | undefined {
    // oxlint-disable-next-line no-underscore-dangle -- the SDK's name
    return (this as HandlerAccess)._getRequestHandler(method);
  }
}

/** The handler that a server has for a method now, if any. */
export function findHandler(server: Server, method: string): SdkHandler | undefined {
  return HandlerAccess.prototype.handler.call(server, method);
}

/** The same, where the SDK has set one. */
export function handlerOf(server: Server, method: string): SdkHandler {
  const handler = findHandler(server, method);
  if (!handler) throw new TypeError(`sluice: this SDK keeps no handler for ${method}`);
  return handler;
}

/** Asks an earlier handler, as the SDK would. */
export function askHandler(
  handler: SdkHandler,
  method: string,
  params: object | undefined,
  ctx: ServerContext,
): Promise<Record<string, unknown>> {
  const request = { jsonrpc: "2.0" as const, id: ctx.mcpReq.id, method };
  return handler({ ...request, ...(params && { params: { ...params } }) }, ctx);
}

/** Scopes that reading needs; the SDK asks for them at `resources/read` only. */
export async function ensureReadScopes(
  mcp: McpServer,
  ctx: ServerContext,
  uri: string,
): Promise<void> {
  if (await missingScopes(mcp, ctx, uri))
    throw new SluiceError("permission_denied", "sluice: read: the access token lacks scopes");
}

/** Scopes that the access token lacks for reading a resource; `undefined` when it has all. */
export async function missingScopes(
  mcp: McpServer,
  ctx: ServerContext,
  uri: string,
): Promise<readonly string[] | undefined> {
  const challenge = await mcp.resolveScopeChallenge({
    request: { jsonrpc: "2.0", id: ctx.mcpReq.id, method: "resources/read", params: { uri } },
    ...definedMembers({ authInfo: ctx.http?.authInfo }),
  });
  return challenge?.scopes;
}
