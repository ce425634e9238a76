/**
 * Sessions whose tools wait, for their client (`ask`) or for something else (`work`): `node waiting-server.js WAY`.
 * `sdk` is the official SDK with the event store that it resumes from, `sluice` the same behind `withResume`. At
 * `/memory` it tells the bytes in use once everything is collected.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { toNodeHandler as toSdkHandler } from "@modelcontextprotocol/node";
import {
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  type EventStore,
} from "@modelcontextprotocol/server";
import { createResume } from "@sluice/resume";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler, type McpFetchHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { freePort, listen, usedBytes } from "../lib/program.ts";

const [way = "sdk"] = process.argv.slice(2);
const port = await freePort();

/** As the examples of the SDK keep events. */
function createSdkEvents(): EventStore {
  const events = new Map<string, { streamId: string; message: unknown }>();
  return {
    async storeEvent(streamId, message) {
      const id = randomUUID();
      events.set(id, { streamId, message });
      return id;
    },
    async replayEventsAfter(lastEventId) {
      return events.get(lastEventId)?.streamId ?? "";
    },
  };
}

function createTools(): McpServer {
  const mcp = new McpServer({ name: "waiting", version: "0.0.0" });
  const done = { content: [{ type: "text" as const, text: "done" }] };
  mcp.registerTool("say", {}, async () => done);
  mcp.registerTool("work", {}, async () => {
    await new Promise(() => {});
    return done;
  });
  mcp.registerTool("ask", {}, async (ctx) => {
    const requestedSchema = { type: "object" as const, properties: {} };
    await ctx.mcpReq.elicitInput(
      { message: "well?", requestedSchema },
      { relatedRequestId: ctx.mcpReq.id, timeout: 3_600_000 },
    );
    return done;
  });
  return mcp;
}

const transports = new Map<string, WebStandardStreamableHTTPServerTransport>();
const sessions: McpFetchHandler = {
  async fetch(request, told) {
    const known = transports.get(request.headers.get("mcp-session-id") ?? "");
    if (known) return known.handleRequest(request, told);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void transports.set(id, transport),
      ...(way === "sdk" ? { eventStore: createSdkEvents() } : {}),
    });
    await createTools().connect(transport);
    return transport.handleRequest(request, told);
  },
};

function sluiceHandler(): ReturnType<typeof toNodeHandler> {
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://bench/",
    endpoint: `http://127.0.0.1:${port}/mcp`,
    keys: "ephemeral",
    onWarning: () => {},
  });
  const resume = createResume({ holdMs: 0 });
  return toNodeHandler(createHandler({ behind: sessions, sluice, resume }));
}

const handler = way === "sdk" ? toSdkHandler(sessions) : sluiceHandler();
const server = createServer((request, response) => {
  if (request.url === "/memory") void usedBytes().then((bytes) => response.end(`${bytes}`));
  else void handler(request as never, response);
});
listen(server, port);
