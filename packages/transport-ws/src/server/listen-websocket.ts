import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { problem, refuseFields, type Reply } from "@sluice/server/internal";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import type { CloseSocketsOptions } from "./connections.ts";
import { refuseUpgrade } from "./upgrade-request.ts";
import { createWebSocketHandler } from "./websocket-handler.ts";
import type { WebSocketHandlerOptions } from "./websocket-options.ts";

/** Options of {@link listenWebSocket}. */
export interface ListenWebSocketOptions extends Omit<WebSocketHandlerOptions, "url"> {
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** Address to listen at. Default `127.0.0.1`: a proxy with TLS in front is what makes it public. */
  readonly host?: string;
  /** Public URL of the endpoint. Default: `ws://<host>:<port>/mcp`. */
  readonly url?: string;
  /** Answers plain HTTP requests, such as those of a sidecar for downloads. Default: 404. */
  readonly requests?: RequestListener;
}

/** A server that listens. */
export interface ListeningWebSocket {
  readonly url: string;
  readonly port: number;
  readonly connections: number;
  /** Stops listening, and closes connections as the handler's `close` does. */
  close(options?: CloseSocketsOptions): Promise<void>;
}

/** Serves MCP over WebSocket on its own port. Rejects when it cannot listen there. */
export async function listenWebSocket(
  factory: McpServerFactory,
  options: ListenWebSocketOptions = {},
): Promise<ListeningWebSocket> {
  const { port: wanted = 0, host = "127.0.0.1", requests = answerNotFound } = options;
  const server = createServer({ connectionsCheckingInterval: 5_000 }, (request, response) => {
    const refusal = refuseFields(request.rawHeaders, maxFields);
    if (refusal) answer(response, refusal);
    else requests(request, response);
  });
  server.headersTimeout = 15_000;
  server.requestTimeout = 30_000;
  // one more than may come: Node drops what is beyond, and says nothing
  server.maxHeadersCount = maxFields + 1;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(wanted, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const url = options.url ?? `ws://${host.includes(":") ? `[${host}]` : host}:${port}/mcp`;
  try {
    const handler = createWebSocketHandler(factory, { ...options, url });
    server.on("upgrade", (request, socket, head) => {
      const refusal = refuseFields(request.rawHeaders, maxFields);
      if (refusal) refuseUpgrade(socket, refusal);
      else if (!handler.upgrade(request, socket, head)) refuseUpgrade(socket, problem(404));
    });
    return {
      url,
      port,
      get connections() {
        return handler.connections;
      },
      async close(closeOptions) {
        const closed = new Promise((resolve) => server.close(resolve));
        await handler.close(closeOptions);
        server.closeAllConnections();
        await closed;
      },
    };
  } catch (error) {
    server.close();
    throw error;
  }
}

const maxFields = 64;
const answerNotFound: RequestListener = (_request, response) => answer(response, problem(404));

function answer(response: ServerResponse, { status, headers, text }: Reply): void {
  response.writeHead(status, [...headers, "Connection", "close"]).end(text);
}
