import { isLoopbackHost, withoutCredentials } from "@sluice/core/internal";
import { problem, type Reply } from "./reply.ts";

/** Which requests are let in, by their `Host` and `Origin`. */
export interface OriginGateOptions {
  /**
   * Host names that requests may be addressed to, without ports. Default: the endpoint's, and all
   * loopback names when that is one. This stops DNS rebinding.
   */
  readonly hosts?: readonly string[];
  /** Exact web origins whose pages may ask, and read the responses (CORS). Default: the endpoint's own. */
  readonly origins?: readonly string[];
}

/** A page without an origin of its own, such as a sandboxed one, says `null`: it cannot be let in. */
function foreignOrigin(origin: string): Reply {
  const detail = isOrigin(origin)
    ? `pages of ${origin} may not use this endpoint; list that origin in the option origins (sluice serve, sluice bridge --http: --origin ${origin})`
    : "pages without an origin of their own may not use this endpoint: their address must be http or https";
  return problem(403, { detail });
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}

interface HeaderFields {
  /** A field by its lower-case name. */
  readonly header: (name: string) => string | undefined;
}

/** Checks `Host` and `Origin` before anything else is looked at. */
export interface OriginGate {
  /** The refusal of a request that was sent to another host: 421. */
  refuseHost(request: HeaderFields): Reply | undefined;
  /** The refusal of a request from a page of another origin: 403. */
  refuseOrigin(request: HeaderFields): Reply | undefined;
  /** The refusal of either, of the host first. */
  refuse(request: HeaderFields): Reply | undefined;
  /** CORS headers for a request that was let through; none when it has no origin. */
  corsHeaders(request: HeaderFields): readonly string[];
}

const exposed =
  "Content-Length, Content-Disposition, Content-Range, Accept-Ranges, ETag, Repr-Digest, Link, MCP-Resource-Uri, Mcp-Session-Id, Retry-After, WWW-Authenticate";

/** CORS headers for a URL that is itself the permission: pages of every origin may read the response, without credentials. */
export const publicCorsHeaders: readonly string[] = [
  "Access-Control-Allow-Origin",
  "*",
  "Access-Control-Expose-Headers",
  exposed,
];

/** Makes the gate of an endpoint. Origins that are not exact are a `TypeError`. */
export function createOriginGate(endpointUrl: string, options: OriginGateOptions = {}): OriginGate {
  const endpoint = new URL(endpointUrl);
  const loopback = isLoopbackHost(endpoint.hostname);
  const hosts = new Set(
    options.hosts?.map((host) => host.toLowerCase()) ??
      (loopback ? ["localhost", "127.0.0.1", "[::1]", endpoint.hostname] : [endpoint.hostname]),
  );
  const origins = new Map<string, readonly string[]>();
  for (const origin of [endpoint.origin, ...(options.origins ?? [])]) {
    if (!isOrigin(origin))
      throw new TypeError(
        `sluice: ${JSON.stringify(withoutCredentials(origin))} is not an origin; write it like "https://app.example.com"`,
      );
    origins.set(origin, [
      "Access-Control-Allow-Origin",
      origin,
      "Access-Control-Expose-Headers",
      exposed,
    ]);
  }
  const refuseHost: OriginGate["refuseHost"] = (request) =>
    hosts.has(hostName(request.header("host"))) ? undefined : problem(421);
  const refuseOrigin: OriginGate["refuseOrigin"] = (request) => {
    const origin = request.header("origin");
    return origin === undefined || origins.has(origin) ? undefined : foreignOrigin(origin);
  };
  return {
    refuseHost,
    refuseOrigin,
    refuse: (request) => refuseHost(request) ?? refuseOrigin(request),
    corsHeaders(request) {
      const origin = request.header("origin");
      return (origin !== undefined && origins.get(origin)) || [];
    },
  };
}

/** The name in a `Host` header without its port, in lower case; empty when it is malformed. */
function hostName(header: string | undefined): string {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/i.exec(header ?? "");
  return match?.[1]?.toLowerCase() ?? "";
}

/**
 * The refusal of a request by its header fields, names and values in turn as they came: 400 for more than one `Host`
 * (RFC 9112 §3.2), since each hop could pick a different one, and 431 for more than `most` fields. Default of `most`:
 * any number.
 */
export function refuseFields(
  rawHeaders: readonly string[],
  most: number = Infinity,
): Reply | undefined {
  if (rawHeaders.length > 2 * most) return problem(431);
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === "host") hosts++;
  return hosts > 1 ? problem(400) : undefined;
}
