import { createServer, type RequestListener } from "node:http";
import type { Server as ServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { createLegacyServer, listen } from "./peers.ts";

/** What the tests see of a server of HTTP with SSE (2024-11-05). */
interface SsePeer {
  readonly url: URL;
  readonly port: number;
  /** Method and path of each request. */
  readonly requests: string[];
  /** Values of `Authorization`. */
  readonly authorizations: (string | undefined)[];
  stop(): Promise<void>;
}

/** Serves by the SDK v1: a stream at `/mcp`, messages at `/messages`. `create` makes the server of one session. */
export function createSseListener(
  create: () => ServerV1 = createLegacyServer,
): (...args: [...Parameters<RequestListener>, body?: unknown]) => void {
  const sessions = new Map<string, SSEServerTransport>();
  return (request, response, body) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
    const session = sessions.get(searchParams.get("sessionId") ?? "");
    if (request.method === "GET" && pathname === "/mcp") {
      const transport = new SSEServerTransport("/messages", response);
      sessions.set(transport.sessionId, transport);
      response.on("close", () => sessions.delete(transport.sessionId));
      void create().connect(transport);
    } else if (session && request.method === "POST" && pathname === "/messages") {
      void session.handlePostMessage(request, response, body);
    } else {
      request.resume();
      response.writeHead(404).end(`Cannot ${request.method} ${pathname}`);
    }
  };
}

export async function startSsePeer(port = 0, create = createLegacyServer): Promise<SsePeer> {
  const requests: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const handle = createSseListener(create);
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url?.split("?")[0]}`);
    authorizations.push(request.headers.authorization);
    handle(request, response);
  });
  return { ...(await listen(server, port)), requests, authorizations };
}
