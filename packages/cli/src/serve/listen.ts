import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { hardenServer } from "@sluice/transport-http/node";
import { fault } from "../terminal/failure.ts";

const mcpPath = "/mcp";

/** A server that listens, and answers 503 until it has something to serve. */
export async function listen(host: string, port: number): Promise<Server> {
  const server = hardenServer(createServer({ connectionsCheckingInterval: 5_000 }));
  server.on("request", answerNotYet);
  server.listen(port, host);
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    const message = `${host}:${port} cannot be listened on (${error.code})`;
    throw fault("unavailable", message, "pass another --host or --port");
  });
  return server;
}

/** Takes away what {@link listen} answers with. */
export function beginToServe(server: Server): void {
  server.off("request", answerNotYet);
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** URL of the endpoint of a server that no proxy stands in front of. */
export function endpointOf(host: string, port: number): string {
  return `http://${nameIn(host)}:${port}${mcpPath}`;
}

/** A host as URLs spell it. */
function nameIn(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** A client that came back at once finds a server that is about to serve. */
function answerNotYet(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(503, { "retry-after": "1" }).end();
}
