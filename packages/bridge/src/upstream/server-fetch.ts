import type { FetchLike } from "@sluice/core";
import { fetch as undiciFetch, type Dispatcher } from "undici";
import { createConnections, silenceMs } from "./connections.ts";

const connectMs = 10_000;

let connections: Dispatcher | undefined;

/**
 * A `fetch` for messages of a server, through the proxy of the environment where there is one. Its connections are those of
 * the process: a bridge with many hosts keeps them from session to session.
 */
export const serverFetch: FetchLike = (input, init) => {
  connections ??= createConnections({ connectMs, headersMs: silenceMs });
  // its types are those of the package, not of the platform
  return undiciFetch(input, { ...(init as object), dispatcher: connections });
};
