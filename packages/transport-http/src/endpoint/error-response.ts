import { definedMembers, type LooseRequest, type RpcId } from "@sluice/core/internal";
import type { RpcFault } from "@sluice/server/internal";

interface ErrorResponseOptions {
  /** Id of the request; `null` where it was not read. Default: `null`. */
  readonly id?: RpcId | null | undefined;
  readonly headers?: Record<string, string>;
}

/** An HTTP response that is a JSON-RPC error. */
export function errorResponse(
  status: number,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  { id = null, headers = {} }: ErrorResponseOptions = {},
): Response {
  return Response.json({ jsonrpc: "2.0", id, error }, { status, headers });
}

/** The response of a Sluice that refuses a call. `session` are the headers of {@link sessionOf}. */
export function faultResponse(
  { status, code, message, data, challenge }: RpcFault,
  { id }: LooseRequest,
  session: Record<string, string> = {},
): Response {
  const headers = definedMembers({
    "cache-control": "no-store",
    ...session,
    "www-authenticate": challenge,
  });
  return errorResponse(status, { code, message, data }, { id, headers });
}

/** The headers by which a response names its session. */
export function sessionOf({ headers }: Response): Record<string, string> {
  const id = headers.get("mcp-session-id");
  return id === null ? {} : { "mcp-session-id": id };
}
