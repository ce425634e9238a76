import { isLoopbackHost } from "@sluice/core";

/** The endpoint, checked. */
export interface Endpoint {
  /** Without a slash at its end. */
  readonly url: string;
  readonly isLoopback: boolean;
}

/** Reads `endpoint`; a `TypeError` when it is no URL that download URLs can be made of. */
export function readEndpoint(endpoint: string): Endpoint {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (!url || url.username || url.password || url.search || url.hash)
    throw new TypeError(
      "createSluice: endpoint must be the public URL of the MCP endpoint, without credentials, query and fragment",
    );
  if (/\/\/|%(?:2[ef]|5c)/i.test(url.pathname))
    throw new TypeError(
      "createSluice: the path of endpoint must have one spelling: no empty segments, and no %2e, %2f or %5c",
    );
  const isLoopback = isLoopbackHost(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback))
    throw new TypeError("createSluice: endpoint must be https, or http on a loopback address");
  return { url: url.href.replace(/\/$/, ""), isLoopback };
}
