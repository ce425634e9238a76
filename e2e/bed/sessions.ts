import { randomUUID } from "node:crypto";
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport as Transport,
  type McpServer,
} from "@modelcontextprotocol/server";

type Fetch = ReturnType<typeof createMcpHandler>["fetch"];

/** The way long-lived servers are wired: legacy clients get a session each, modern ones none. */
export function createSessionfulHandler(factory: () => McpServer): { readonly fetch: Fetch } {
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
      const legacy =
        request.method !== "POST" || (await isLegacyRequest(request, options?.parsedBody));
      if (!legacy) return modern.fetch(request, options);
      const id = request.headers.get("mcp-session-id");
      const transport = id === null ? await open() : sessions.get(id);
      return transport
        ? transport.handleRequest(request, options)
        : Response.json({ error: "no such session" }, { status: 404 });
    },
  };
}
