/** @ts-ignore: in our declarations, users of SDK version 1 lack this package */
import type { Client } from "@modelcontextprotocol/client";
import { createStreaming } from "./calls/node-streaming.ts";
import { connectClient, type ConnectOptions } from "./connect/connect-client.ts";

// declarations here replace the portable export of the same name
export * from "./connect.ts";

/**
 * Connects a client of the MCP SDK, version 2, that streams: it is one for `saveResource` and `streamResource`, and for
 * all else that an SDK client does. `endpoint` is the URL of a server over Streamable HTTP, of any protocol revision.
 * Close it with `client.close()`.
 *
 * Needs the package `@modelcontextprotocol/client`, and rejects with `unsupported` without it. Also rejects with a
 * `TypeError` for an invalid endpoint or an unknown option, with `untrusted` for a token that would travel in the clear,
 * with `unavailable` for a server that is down, `not_found` for a path without MCP, `unauthenticated`, `permission_denied`,
 * `throttled`, `timeout` or `protocol`, each with the error of the SDK as its `cause`, or with `signal.reason`.
 */
export function connect(endpoint: string | URL, options: ConnectOptions = {}): Promise<Client> {
  return connectClient(endpoint, options, createStreaming);
}
