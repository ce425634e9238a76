import type { Sluice } from "@sluice/server";
import { problem, type Reply } from "@sluice/server/transport";
import { routesBelow, type CorsTerms, type Routes } from "../endpoint/router.ts";
import type { PlainRequest } from "../endpoint/plain-route.ts";

/** The route below `<endpoint>/streams/`, for a Sluice whose endpoint this process sees at `base`. */
export function createDownloadRoutes(sluice: Sluice, base: string): Routes {
  sluice.host.markServed();

  async function answer(request: PlainRequest, token: string): Promise<Reply> {
    const { method } = request;
    if (method !== "GET" && method !== "HEAD")
      return problem(405, { headers: ["Allow", "GET, HEAD, OPTIONS"] });
    return sluice.redeem({
      method,
      token,
      header: (name) => request.header(name),
      address: request.address,
      authInfo: request.authInfo,
      sessionId: request.header("mcp-session-id"),
      signal: request.signal,
    });
  }

  return routesBelow(`${base}/streams/`, (token) => ({
    kind: "stream",
    // most URLs are bound to a principal; what the others permit needs no caller that is known
    credential: "bearer",
    cors,
    answer: (request) => answer(request, token),
  }));
}

const cors: CorsTerms = {
  methods: ["GET", "HEAD"],
  headers:
    "Authorization, Range, If-Range, If-None-Match, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id",
};
