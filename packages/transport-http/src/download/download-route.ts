import type { Sluice } from "@sluice/server";
import { conditionFields, problem, type Reply } from "@sluice/server/internal";
import { allowOf, routesBelow, type CorsTerms, type Routes } from "../endpoint/router.ts";
import { callerOfPlain, type PlainRequest } from "../endpoint/plain-route.ts";

/**
 * The routes below `<endpoint>/streams/` and `<endpoint>/d/`, for a Sluice whose endpoint this process sees at `base`.
 * Also tells the Sluice that this process serves its URLs.
 */
export function createDownloadRoutes(sluice: Sluice, base: string): Routes {
  sluice.host.markServed();

  function answer(request: PlainRequest, token: string, kind?: "link"): Promise<Reply> {
    const { method } = request;
    if (method !== "GET" && method !== "HEAD")
      return Promise.resolve(problem(405, { headers: ["Allow", allowOf(linkCors)] }));
    return sluice.host.redeem({
      ...callerOfPlain(request),
      method,
      token,
      kind,
      signal: request.signal,
    });
  }

  const prefix = `${base}/streams/`;
  const cors: CorsTerms = {
    methods,
    headers: `Authorization, ${rangeFields}, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id`,
    public: (path) => sluice.host.isSelfAuthenticating(path.slice(prefix.length)),
  };
  const streams = routesBelow(prefix, (token) => ({
    kind: "stream",
    // most URLs are bound to a principal; the others work even without an access token
    credential: "bearer",
    cors,
    answer: (request) => answer(request, token),
  }));
  const links = routesBelow(`${base}/d/`, (token) => ({
    kind: "link",
    credential: "url",
    cors: linkCors,
    answer: (request) => answer(request, token, "link"),
  }));
  return (path) => streams(path) ?? links(path);
}

const methods = ["GET", "HEAD"] as const;
/** Request headers that a download reads. */
const rangeFields = ["Range", "If-Range", ...conditionFields].join(", ");
const linkCors: CorsTerms = { methods, headers: rangeFields, public: () => true };
