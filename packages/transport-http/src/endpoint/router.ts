import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { readTarget } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import {
  createOriginGate,
  problem,
  publicCorsHeaders,
  type Host,
  type OriginGate,
  type OriginGateOptions,
  type Reply,
} from "@sluice/server/internal";
import { endpointPage, isVisit } from "./endpoint-page.ts";
import type { PlainRequest } from "./plain-route.ts";

/** What a request target names. */
export interface Route {
  /** `mcp` is the endpoint itself; all others lie below it. */
  readonly kind: "mcp" | "resume" | "stream" | "link" | "slot" | "page";
  /**
   * What lets a request in. `bearer`: the caller's access token, verified by the app's middleware. `url`: the token in
   * the URL, which the route verifies.
   */
  readonly credential: "bearer" | "url";
  /** Answers every caller, since none is identified: not behind a check of access tokens, which browsers do not send. */
  readonly isOpenByDefault?: boolean;
  /** What pages of other origins may do. Absent: nothing. */
  readonly cors?: CorsTerms;
  /** Answers a request. A route below the endpoint has either this or `fetch`; the endpoint has neither. */
  readonly answer?: (request: PlainRequest) => Promise<Reply>;
  /** Answers a web request, where plain values are not enough. */
  readonly fetch?: (
    request: Request,
    options: McpHandlerRequestOptions | undefined,
  ) => Promise<Response>;
}

/** What pages of allowed origins may send, and read of the response. */
export interface CorsTerms {
  /** Whether the URL of a path is itself the permission: pages of every origin may use it, without credentials. Default: no. */
  readonly public?: (path: string) => boolean;
  readonly methods: readonly string[];
  /** Value of `Access-Control-Allow-Headers`. */
  readonly headers: string;
  /** Names of further headers that a page may read. */
  readonly exposed?: string;
  /** Further headers of the response to OPTIONS, names and values in turn. */
  readonly options?: readonly string[];
}

/** The value of `Allow` of a route. */
export function allowOf({ methods }: Pick<CorsTerms, "methods">): string {
  return [...methods, "OPTIONS"].join(", ");
}

/** The endpoint itself. `*` stands for the `Mcp-Param-…` headers that tools name themselves. */
export const endpointRoute: Route & { readonly cors: CorsTerms } = {
  kind: "mcp",
  credential: "bearer",
  cors: {
    methods: ["GET", "POST", "DELETE"],
    headers:
      "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, *",
  },
};

/** Finds the route of a path; `undefined` if there is none. */
export type Routes = (path: string) => Route | undefined;

/** Routes for every path that begins with a prefix: `routeOf` gets what follows it. */
export function routesBelow(prefix: string, routeOf: (rest: string) => Route): Routes {
  return (path) => (path.startsWith(prefix) ? routeOf(path.slice(prefix.length)) : undefined);
}

/** The gate and the routes in front of a handler; shared by all its layers. */
export interface EndpointRouter {
  /** URL of the endpoint as clients see it. */
  readonly url: string;
  /** Path of the endpoint as this process sees it, without a slash at its end. */
  readonly base: string;
  readonly gate: OriginGate;
  readonly routes: Routes;
  /** What knows the addresses of clients; absent: those of their sockets count. */
  readonly clients?: Pick<Host, "proxyHops" | "addressOf"> | undefined;
}

/** Where requests for an endpoint come in, and from which pages. */
export interface EndpointOptions extends OriginGateOptions {
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `endpoint`. */
  readonly path?: string;
}

/**
 * Makes the router of the endpoint of a Sluice, without any route below it. Throws a `TypeError` for a `path` or an
 * origin that no request can name.
 */
export function createRouter(
  { endpoint: { url }, host }: Pick<Sluice, "endpoint"> & Partial<Pick<Sluice, "host">>,
  options: EndpointOptions,
): EndpointRouter {
  const base = readBase(options.path ?? new URL(url).pathname);
  return {
    url,
    base,
    gate: createOriginGate(url, options),
    routes: (path) => (path === (base || "/") ? endpointRoute : undefined),
    clients: host,
  };
}

/** A router with further routes, which are tried after its own. */
export function withRoutes(router: EndpointRouter, routes: Routes): EndpointRouter {
  return { ...router, routes: (path) => router.routes(path) ?? routes(path) };
}

/** The verdict of the router on a request: a reply to it, or its route and the CORS headers of the response. */
export type Admission =
  | { readonly reply: Reply }
  | { readonly reply?: undefined; readonly route: Route; readonly cors: readonly string[] };

/**
 * Looks at target, `Host` and `Origin`, before anything else does. A target that is malformed is 400, a wrong host 421, a
 * wrong origin 403, and what names no route 404. A browser that opens the endpoint is led to the page for people, or gets one about it. Answers `OPTIONS` where a route says what pages may do.
 */
export function admit(
  router: EndpointRouter,
  request: Pick<PlainRequest, "method" | "target" | "header">,
): Admission {
  const path = readTarget(request.target);
  if (path === undefined) return { reply: problem(400) };
  const { gate } = router;
  const wrongHost = gate.refuseHost(request);
  if (wrongHost) return { reply: wrongHost };
  const route = router.routes(path);
  const terms = route?.cors;
  // asked only for requests from web pages, since the answer may require opening a token
  const isPublic = request.header("origin") !== undefined && terms?.public?.(path) === true;
  const wrongOrigin = isPublic ? undefined : gate.refuseOrigin(request);
  if (wrongOrigin) return { reply: wrongOrigin };
  if (!route) return { reply: problem(404) };
  if (route.kind === "mcp" && isVisit(request)) return { reply: visitReply(router) };
  if (!terms) return { route, cors: [] };
  const corsHeaders = isPublic ? publicCorsHeaders : gate.corsHeaders(request);
  const isOpen = corsHeaders.length > 0;
  const cors =
    isOpen && terms.exposed !== undefined
      ? [...corsHeaders, "Access-Control-Expose-Headers", terms.exposed]
      : corsHeaders;
  if (request.method === "OPTIONS")
    return { reply: answerOptions(terms, request, isOpen ? cors : []) };
  return { route, cors };
}

/** Leads to the page for people at the root if there is one. */
function visitReply({ url, routes }: EndpointRouter): Reply {
  if (routes("/")?.kind !== "page") return endpointPage(url);
  const headers = ["Location", new URL("/", url).href, "Content-Length", "0", "Vary", "Accept"];
  return { status: 302, headers: [...headers, "Cache-Control", "private, no-store"], text: "" };
}

/** A reply with further headers, names and values in turn. */
export function withHeaders(reply: Reply, extra: readonly string[]): Reply {
  return extra.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...extra] };
}

function answerOptions(
  { methods, headers, options = [] }: CorsTerms,
  request: Pick<PlainRequest, "header">,
  cors: readonly string[],
): Reply {
  const isPreflight =
    cors.length > 0 && request.header("access-control-request-method") !== undefined;
  const allowed = isPreflight
    ? [
        "Access-Control-Allow-Methods",
        methods.join(", "),
        "Access-Control-Allow-Headers",
        headers,
        "Access-Control-Max-Age",
        "600",
      ]
    : [];
  return {
    status: 204,
    headers: ["Allow", allowOf({ methods }), "Vary", "Origin", ...options, ...cors, ...allowed],
  };
}

/**
 * What stands before the routes below an endpoint: its path without a slash at the end, empty at the root. Throws a
 * `TypeError` for a path that no request can name.
 */
export function readBase(path: string): string {
  const base = path.replace(/\/$/, "");
  const isSpelled = path === "" || (readTarget(path) === path && urlPath(path) === path);
  if (!isSpelled)
    throw new TypeError(
      "sluice: path must be the path of the endpoint as URLs spell it, such as /mcp, without empty or dot segments",
    );
  return base;
}

function urlPath(path: string): string {
  return new URL(path, "http://localhost").pathname;
}
