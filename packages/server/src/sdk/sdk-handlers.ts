import {
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type JSONRPCRequest,
  type McpServer,
  type Result,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { adviceOf } from "./advice.ts";
import { eraOf } from "../delivery/client-streaming.ts";
import { isStreaming } from "../delivery/is-streaming.ts";
import { faultOf, type RpcFault } from "./rpc-fault.ts";
import { signInFault } from "../access/sign-in-fault.ts";
import type { SluiceParts } from "../options/sluice-parts.ts";
import { slotOf } from "../delivery/stream-slot.ts";

/** A handler as the SDK keeps it: from a JSON-RPC request to a result. */
export type Handler = (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>;

/** Reaches the SDK's accessor for stored handlers, which it keeps for role classes: `protected`. */
class HandlerAccess extends Server {
  handler(this: Server, method: string): Handler | undefined {
    // oxlint-disable-next-line no-underscore-dangle -- the SDK's name
    return (this as HandlerAccess)._getRequestHandler(method);
  }
}

/** The handler that a server has for a method now, if any. */
export function findHandler(server: Server, method: string): Handler | undefined {
  return HandlerAccess.prototype.handler.call(server, method);
}

/** The same, where the SDK has set one. */
export function handlerOf(server: Server, method: string): Handler {
  const handler = findHandler(server, method);
  if (!handler) throw new TypeError(`sluice: this SDK keeps no handler for ${method}`);
  return handler;
}

/** Asks an earlier handler, as the SDK would. */
export function askHandler(
  handler: Handler,
  method: string,
  params: object | undefined,
  ctx: ServerContext,
): Promise<Record<string, unknown>> {
  const request = { jsonrpc: "2.0" as const, id: ctx.mcpReq.id, method };
  return handler({ ...request, ...(params && { params: { ...params } }) }, ctx);
}

/** Where a handler runs. */
interface Place {
  readonly mcp: McpServer;
  readonly ctx: ServerContext;
  readonly uri?: string;
}

/** Runs a handler of a specified method; what it throws goes out as the error table says. */
export async function guarded<T>(
  parts: SluiceParts,
  { mcp, ctx, uri }: Place,
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    // what the SDK or the author's own handlers throw is theirs
    if (error instanceof ProtocolError) throw error;
    if (SluiceError.is(error) && error.code === "unauthenticated") {
      const slot = slotOf(ctx.http?.req);
      if (slot) slot.fault = signInFault(parts, eraOf(mcp));
    }
    const suggestion = adviceOf(error, isStreaming(mcp, ctx));
    const fault = faultOf(error, eraOf(mcp), {
      ...(uri !== undefined && { uri }),
      ...(suggestion !== undefined && { suggestion }),
    });
    if (fault.data.reason === "internal" && !ctx.mcpReq.signal.aborted) parts.onError(error);
    throw toProtocolError(fault);
  }
}

/** Scopes that reading needs; the SDK asks for them at `resources/read` only. */
export async function ensureReadScopes(
  mcp: McpServer,
  ctx: ServerContext,
  uri: string,
): Promise<void> {
  const authInfo = ctx.http?.authInfo;
  const challenge = await mcp.resolveScopeChallenge({
    request: { jsonrpc: "2.0", id: ctx.mcpReq.id, method: "resources/read", params: { uri } },
    ...(authInfo && { authInfo }),
  });
  if (challenge)
    throw new SluiceError("permission_denied", "sluice: read: the access token lacks scopes");
}

/** A fault as the SDK's handlers throw it. */
export function toProtocolError({ code, message, data }: RpcFault): ProtocolError {
  return new ProtocolError(code, message, data);
}

/** What a server answers to a method that it cannot serve here. */
export function methodNotFound(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.MethodNotFound, message);
}
