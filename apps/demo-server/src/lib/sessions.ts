import { randomUUID } from "node:crypto";
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport as Transport,
  type McpServer,
} from "@modelcontextprotocol/server";
import type { McpFetchHandler } from "@sluice/transport-http";

/** Serves both eras: modern clients need no session, legacy ones get one, without which nobody can ask them anything. */
export function createSessionfulHandler(factory: () => McpServer): McpFetchHandler {
  const modern = createMcpHandler(factory, { legacy: "reject" });
  const sessions = new Map<string, Transport>();

  async function open(): Promise<Transport> {
    const transport = new Transport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await factory().connect(transport);
    return transport;
  }

  return {
    async fetch(request, options) {
      const isLegacy =
        request.method !== "POST" || (await isLegacyRequest(request, options?.parsedBody));
      if (!isLegacy) return modern.fetch(request, options);
      const id = request.headers.get("mcp-session-id");
      const transport = id === null ? await open() : sessions.get(id);
      if (transport) return transport.handleRequest(request, options);
      return Response.json({ error: "no such session" }, { status: 404 });
    },
  };
}
