import { problem, type OriginGate, type Reply, type Sluice } from "@sluice/server";
import type { PlainRequest, PlainRoute } from "./plain-route.ts";

/**
 * Makes the route that answers requests below `<endpoint>/streams/`, for a Sluice whose endpoint this
 * process sees at `path`.
 */
export function createDownloadRoute(sluice: Sluice, gate: OriginGate, path: string): PlainRoute {
  const prefix = `${path}/streams/`;

  async function answer(request: PlainRequest): Promise<Reply> {
    const { method, target } = request;
    const refused = gate.refuse(request);
    if (refused) return refused;
    const cors = gate.corsHeaders(request);
    if (method === "OPTIONS") return preflight(request, cors);
    if (method !== "GET" && method !== "HEAD")
      return problem(405, { headers: ["Allow", "GET, HEAD, OPTIONS"] });
    const query = target.indexOf("?");
    const reply = await sluice.redeem({
      method,
      token: target.slice(prefix.length, query < 0 ? undefined : query),
      header: (name) => request.header(name),
      authInfo: request.authInfo,
      sessionId: request.header("mcp-session-id"),
      signal: request.signal,
    });
    return cors.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...cors] };
  }

  return (request) => (request.target.startsWith(prefix) ? answer(request) : undefined);
}

function preflight(request: PlainRequest, cors: readonly string[]): Reply {
  const wanted = request.header("access-control-request-method");
  const allowed =
    cors.length === 0 || wanted === undefined
      ? []
      : [
          ...cors,
          "Access-Control-Allow-Methods",
          "GET, HEAD",
          "Access-Control-Allow-Headers",
          "Authorization, Range, If-Range, If-None-Match, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id",
          "Access-Control-Max-Age",
          "600",
        ];
  return { status: 204, headers: ["Allow", "GET, HEAD, OPTIONS", "Vary", "Origin", ...allowed] };
}
