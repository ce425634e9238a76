/** The shape of `fetch` as MCP SDKs call it. */
export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;
