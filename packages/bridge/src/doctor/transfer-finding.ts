/**
 * What stands in the way.
 *
 * - `name`: the name of the server has no address
 * - `connection`: nothing listens there, it breaks off, or it does not answer
 * - `certificate`: TLS fails
 * - `renewal`: the certificate expires within 14 days
 * - `clock`: the clocks of this machine and the server differ
 * - `redirect`: the endpoint redirects
 * - `endpoint`: something answers, but not MCP
 * - `server`: the server, or what a proxy has behind it, fails
 * - `sign-in`: the server wants a token, or another one
 * - `authorization`: `Authorization` does not arrive
 * - `access`: this caller may not
 * - `host`: the server does not take this `Host`
 * - `origin`: the server does not take this `Origin`
 * - `mcp-headers`: `Mcp-*` headers do not arrive
 * - `revision`: the two have no protocol revision in common
 * - `capability`: the server has no resources
 * - `public-url`: the server names its downloads by a wrong address
 * - `trust`: the bytes are at an origin that the client does not trust
 * - `range`: ranges are ignored
 * - `changed`: the bytes arrive changed
 * - `buffering`: nothing arrives before everything is there
 * - `body-cap`: requests may not be large
 * - `cut`: connections end too early
 */
export type FindingCause =
  | "name"
  | "connection"
  | "certificate"
  | "renewal"
  | "clock"
  | "redirect"
  | "endpoint"
  | "server"
  | "sign-in"
  | "authorization"
  | "access"
  | "host"
  | "origin"
  | "mcp-headers"
  | "revision"
  | "capability"
  | "public-url"
  | "trust"
  | "range"
  | "changed"
  | "buffering"
  | "body-cap"
  | "cut";

/** One thing between this machine and the bytes of a server. */
export interface TransferFinding {
  readonly cause: FindingCause;
  /** One sentence: what was seen, and what to change. Holds no token. */
  readonly message: string;
}
