import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { Server as ServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as v1 from "@modelcontextprotocol/sdk/types.js";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import type { AtEnd } from "./bridged.ts";

/** What the tests see of a server. */
export interface Peer {
  readonly url: URL;
  readonly port: number;
  /** Bodies that it got, one a request. */
  readonly received: Record<string, unknown>[];
  /** Header fields of those. */
  readonly headers: Record<string, unknown>[];
  /** Tells its clients that a resource and its tools have changed. */
  change(uri: string): void;
  /** Ends it and every connection. */
  stop(): Promise<void>;
}

const info = { name: "peer", version: "1.0.0" };
const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: {},
  completions: {},
  logging: {},
};
const text = (value: unknown) => [{ type: "text" as const, text: JSON.stringify(value) }];
const schema = { type: "object" as const };
const question = {
  message: "What is your name?",
  requestedSchema: { type: "object" as const, properties: { name: { type: "string" as const } } },
};
const tools = ["echo", "ask", "sample", "roots", "progress", "hang", "log", "slow", "number"].map(
  (name) => ({ name, description: `Does ${name}`, inputSchema: schema }),
);
const annotated = {
  name: "annotated",
  inputSchema: {
    ...schema,
    properties: { region: { type: "string" as const, "x-mcp-header": "Region" } },
  },
};
const resources = [{ uri: "test://a", name: "a" }];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Calls of `hang` that were ended by their client. */
export const hung = { ended: 0 };

function untilEnded(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener("abort", () => {
      hung.ended++;
      reject(new Error("ended"));
    }),
  );
}

/** A server of SDK v1 with sessions (2025-11-25). */
export function createLegacyServer(): ServerV1 {
  const server = new ServerV1(info, { capabilities });
  server.setRequestHandler(v1.ListToolsRequestSchema, () => ({ tools }));
  server.setRequestHandler(v1.CallToolRequestSchema, async ({ params }, extra) => {
    const ask = (method: string, asked: object): Promise<unknown> =>
      extra.sendRequest({ method, params: asked } as v1.ServerRequest, v1.ResultSchema);
    const progressToken = params._meta?.progressToken;
    switch (params.name) {
      case "echo":
        return { content: text(params) };
      case "ask":
        return { content: text(await ask("elicitation/create", question)) };
      case "sample":
        return {
          content: text(await ask("sampling/createMessage", { messages: [], maxTokens: 1 })),
        };
      case "roots":
        return { content: text(await ask("roots/list", {})) };
      case "progress":
        for (const progress of [1, 2])
          if (progressToken !== undefined)
            await extra.sendNotification({
              method: "notifications/progress",
              params: { progressToken, progress },
            });
        return { content: text("done") };
      case "log":
        // in the stream of the call, where hosts of 2026-07-28 can hear it
        await extra.sendNotification({
          method: "notifications/message",
          params: { level: "error", data: "logged" },
        });
        return { content: text("logged") };
      case "hang":
        return untilEnded(extra.signal);
      case "slow":
        await pause(30_000);
        return { content: text("slow") };
      default:
        return { content: text(params.name) };
    }
  });
  server.setRequestHandler(v1.ListResourcesRequestSchema, () => ({ resources }));
  server.setRequestHandler(v1.ReadResourceRequestSchema, ({ params }) => ({
    contents: [{ uri: params.uri, text: "content" }],
  }));
  server.setRequestHandler(v1.SubscribeRequestSchema, () => ({}));
  server.setRequestHandler(v1.UnsubscribeRequestSchema, () => ({}));
  server.setRequestHandler(v1.CompleteRequestSchema, ({ params }) => ({
    completion: { values: [`${params.argument.value}!`] },
  }));
  server.setRequestHandler(v1.GetPromptRequestSchema, ({ params }) => ({
    messages: [{ role: "user", content: { type: "text", text: params.name } }],
  }));
  return server;
}

/** A server of SDK v2, which answers both revisions. */
function createModernServer(): Server {
  const server = new Server(info, { capabilities });
  server.setRequestHandler("tools/list", () => ({
    tools: [
      ...tools,
      annotated,
      {
        name: "numbers",
        inputSchema: schema,
        outputSchema: { type: "array", items: { type: "number" } },
      },
    ],
  }));
  server.setRequestHandler("tools/call", async ({ params }, ctx) => {
    const { inputResponses } = ctx.mcpReq;
    const askFor = (method: string, asked: object) =>
      inputResponses?.["one"] === undefined
        ? ({
            resultType: "input_required",
            inputRequests: { one: { method, params: asked } },
            requestState: "kept",
          } as never)
        : { content: text(inputResponses["one"]) };
    const progressToken = params._meta?.progressToken;
    switch (params.name) {
      case "echo":
        return { content: text(params) };
      case "ask":
        return askFor("elicitation/create", { mode: "form", ...question });
      case "sample":
        return askFor("sampling/createMessage", { messages: [], maxTokens: 1 });
      case "roots":
        return askFor("roots/list", {});
      case "progress":
        for (const progress of [1, 2])
          if (progressToken !== undefined)
            await ctx.mcpReq.notify({
              method: "notifications/progress",
              params: { progressToken, progress },
            });
        return { content: text("done") };
      case "log":
        await ctx.mcpReq.log("error", "logged");
        return { content: text("logged") };
      case "hang":
        return untilEnded(ctx.mcpReq.signal);
      case "slow":
        await pause(30_000);
        return { content: text("slow") };
      case "numbers":
        return { content: [], structuredContent: [1, 2] };
      default:
        return { content: text(params.name) };
    }
  });
  server.setRequestHandler("resources/list", () => ({ resources }));
  server.setRequestHandler("resources/read", ({ params }) => ({
    contents: [{ uri: params.uri, text: "content" }],
  }));
  server.setRequestHandler("completion/complete", ({ params }) => ({
    completion: { values: [`${params.argument.value}!`] },
  }));
  server.setRequestHandler("prompts/get", ({ params }) => ({
    messages: [{ role: "user", content: { type: "text", text: params.name } }],
  }));
  return server;
}

/** Serves 2025-11-25 with sessions, by the SDK v1. */
export async function startLegacyPeer(port = 0, atEnd?: AtEnd): Promise<Peer> {
  const sessions = new Map<
    string,
    { transport: StreamableHTTPServerTransport; server: ServerV1 }
  >();
  const peer = await startPeer(port, atEnd, (body, request, response) => {
    const session = sessions.get(String(request.headers["mcp-session-id"]));
    if (session) return void session.transport.handleRequest(request, response, body);
    if ((body as { method?: string } | undefined)?.method !== "initialize") {
      response.writeHead(404, { "content-type": "application/json" });
      const error = { code: -32_001, message: "Session not found" };
      return response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error }));
    }
    const server = createLegacyServer();
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, { transport, server }),
    });
    void server
      .connect(transport as never)
      .then(() => transport.handleRequest(request, response, body));
    return undefined;
  });
  return {
    ...peer,
    change: (uri) => {
      for (const { server } of sessions.values()) {
        // its client has ended it
        if (!server.transport) continue;
        void server.sendResourceUpdated({ uri });
        void server.sendToolListChanged();
      }
    },
  };
}

/** Serves 2026-07-28 only, by the SDK v2. */
export async function startModernPeer(port = 0, atEnd?: AtEnd): Promise<Peer> {
  const handler = createMcpHandler(createModernServer, { legacy: "reject" });
  const handle = toNodeHandler(handler);
  const peer = await startPeer(
    port,
    atEnd,
    (body, request, response) =>
      void handle(request as NodeIncomingMessageLike & typeof request, response, body),
  );
  return {
    ...peer,
    change: (uri) => {
      handler.notify.resourceUpdated(uri);
      handler.notify.toolsChanged();
    },
  };
}

type Handle = (
  body: unknown,
  request: Parameters<RequestListener>[0],
  response: Parameters<RequestListener>[1],
) => unknown;

async function startPeer(
  port: number,
  atEnd: AtEnd | undefined,
  handle: Handle,
): Promise<Omit<Peer, "change">> {
  const received: Record<string, unknown>[] = [];
  const headers: Record<string, unknown>[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body =
        chunks.length > 0
          ? (JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>)
          : undefined;
      if (body) {
        received.push(body);
        headers.push(request.headers);
      }
      handle(body, request, response);
    });
  });
  return { ...(await listen(server, port, atEnd)), received, headers };
}

/** Listens on the loopback address; ends with the test, or when `atEnd` says. */
export async function listen(
  server: HttpServer,
  port = 0,
  atEnd: AtEnd = onTestFinished,
): Promise<{ url: URL; port: number; stop: () => Promise<void> }> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const { port: taken } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
  const stop = async (): Promise<void> => {
    await close();
    // a client in this process must hear of it before its next call
    await pause(50);
  };
  atEnd(close);
  return { url: new URL(`http://127.0.0.1:${taken}/mcp`), port: taken, stop };
}
