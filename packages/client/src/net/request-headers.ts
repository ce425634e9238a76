/** The parts of the session that may travel with a request, and where to. */
export interface SessionCredentials {
  /** The MCP endpoint: none of this ever leaves its origin. */
  readonly endpoint: URL;
  /** `Authorization` of the call that asked for the bytes. */
  readonly authorization?: string | undefined;
  /** `Mcp-Session-Id` of that call; legacy revisions only. */
  readonly sessionId?: string | undefined;
}

/** What one request needs. */
export interface HopDemand {
  /** `self`: the URL is enough, credentials stay home. */
  readonly auth: "bound" | "self";
  readonly sessionBound: boolean;
  /** As in the `Range` header. */
  readonly range?: string | undefined;
  /** Strong entity tag; goes along with a range only. */
  readonly etag?: string | undefined;
}

/**
 * The headers of one request: an allowlist, built anew for every hop. Credentials go to the MCP
 * endpoint's own origin and nowhere else.
 */
export function hopHeaders(
  url: URL,
  demand: HopDemand,
  credentials: SessionCredentials | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: "*/*",
    "accept-encoding": "identity",
  };
  if (demand.range !== undefined) {
    headers["range"] = demand.range;
    if (demand.etag !== undefined) headers["if-range"] = demand.etag;
  }
  if (demand.auth === "bound" && url.origin === credentials?.endpoint.origin) {
    if (credentials.authorization !== undefined)
      headers["authorization"] = credentials.authorization;
    if (demand.sessionBound && credentials.sessionId !== undefined)
      headers["mcp-session-id"] = credentials.sessionId;
  }
  return headers;
}
