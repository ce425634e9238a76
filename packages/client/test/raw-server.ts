import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** A JSON-RPC request as it came over the wire. */
export interface RpcRequest {
  readonly id: unknown;
  readonly method: string;
  readonly params: { readonly uri: string; readonly _meta: Record<string, unknown> };
}

/** One HTTP request that a raw server saw. */
export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface RawServer {
  readonly url: string;
  readonly origin: string;
  readonly seen: Seen[];
  /** Connections ever accepted. */
  connections(): number;
  /** Connections open now. */
  open(): number;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What a hostile or broken server does. */
export interface RawHandlers {
  /** Answers `resources/stream`. */
  stream?(request: RpcRequest, res: ServerResponse, req: IncomingMessage): void;
  /** Answers every GET. */
  get?(req: IncomingMessage, res: ServerResponse): void;
}

/** A server that speaks just enough MCP of the legacy era and is otherwise whatever a test needs. */
export async function startRawServer(handlers: RawHandlers): Promise<RawServer> {
  const seen: Seen[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server: Server = createServer((req, res) => {
    let body = "";
    req.setEncoding("utf8").on("data", (text: string) => (body += text));
    req.on("end", () => {
      seen.push({ method: req.method ?? "", url: req.url ?? "", headers: req.headers, body });
      if (req.method === "POST") post(body, res, req);
      else if (req.url === "/mcp") res.writeHead(405).end();
      else if (handlers.get) handlers.get(req, res);
      else res.writeHead(404).end();
    });
  });

  function post(body: string, res: ServerResponse, req: IncomingMessage): void {
    const message = JSON.parse(body) as RpcRequest;
    if (message.id === undefined) return void res.writeHead(202).end();
    if (message.method === "resources/stream") return handlers.stream?.(message, res, req);
    if (message.method !== "initialize")
      return reply(res, message, { error: { code: -32601, message: "Method not found" } });
    const result = {
      protocolVersion: "2025-06-18",
      capabilities: { resources: {} },
      serverInfo: { name: "raw", version: "0" },
    };
    return reply(res, message, { result });
  }

  server.on("connection", (socket) => {
    connections++;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${origin}/mcp`,
    origin,
    seen,
    connections: () => connections,
    open: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Sends a JSON-RPC answer. */
export function reply(res: ServerResponse, { id }: RpcRequest, payload: object): void {
  res.writeHead(200, { "content-type": "application/json" });
  res.end(JSON.stringify({ jsonrpc: "2.0", id, ...payload }));
}

/** Answers with a download URL on the same server. */
export function replyUrl(res: ServerResponse, request: RpcRequest, url: string, more: object = {}) {
  reply(res, request, { result: { uri: request.params.uri, downloadUrl: url, ...more } });
}
