// Names and numbers of MCP itself.

/** Request header that repeats the method for gateways; servers hold it against the body (2026-07-28). */
export const METHOD_HEADER = "mcp-method";

/** Request header that repeats `params.uri` for gateways (2026-07-28). */
export const NAME_HEADER = "mcp-name";

/** JSON-RPC code of a request whose headers contradict its body (2026-07-28), with HTTP 400. */
export const HEADER_MISMATCH_CODE = -32020;

/** Method with which a server asks the user for something (MCP; mode `binary`: SEP-1306 §2). */
export const ELICIT_METHOD = "elicitation/create";

/** Method with which a client without a session receives changes (2026-07-28). */
export const LISTEN_METHOD = "subscriptions/listen";

/** First protocol revision without sessions and without resumable event streams. */
export const FIRST_MODERN_VERSION = "2026-07-28";

/**
 * Kind of protocol revision that a peer speaks: `legacy` has sessions and `initialize` (2025-11-25 and older),
 * `modern` is stateless (2026-07-28 on).
 */
export type RevisionKind = "legacy" | "modern";

/** The shape of `fetch` as MCP SDKs call it. */
export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;
