import { randomUUID } from "node:crypto";
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport as SessionTransport,
} from "@modelcontextprotocol/server";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import type { NodeHandler } from "@sluice/transport-http/node";
import { createReferenceServer } from "./reference-server.ts";

/** The reference server with the SDK's own sessions for clients of 2025-11-25 and older. */
export function createSessionsHandler(): NodeHandler {
  const modern = createMcpHandler(createReferenceServer, { legacy: "reject" });
  const sessions = new Map<string, SessionTransport>();

  async function answerInSession(request: Request): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : sessions.get(id);
    if (known) return known.handleRequest(request);
    if (id !== null) return Response.json(sessionNotFound, { status: 404 });
    const opened: SessionTransport = new SessionTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (given) => void sessions.set(given, opened),
      onsessionclosed: (given) => void sessions.delete(given),
    });
    await createReferenceServer().connect(opened);
    return opened.handleRequest(request);
  }

  const handle = toNodeHandler({
    fetch: async (request) => {
      const isSession = request.method !== "POST" || (await isLegacyRequest(request));
      return isSession ? answerInSession(request) : modern.fetch(request);
    },
  });
  return (request, response) =>
    void handle(request as NodeIncomingMessageLike & typeof request, response);
}

const sessionNotFound = {
  jsonrpc: "2.0",
  id: null,
  error: { code: -32_001, message: "Session not found" },
};
