// Express 5 with SDK v1 and sessions, as its examples have it: the endpoint takes POST alone.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import express from "express";
import { expect, test } from "vitest";
import { bridgedTo, createHost } from "../../packages/bridge/test/bridged.ts";
import { listen } from "../../packages/bridge/test/peers.ts";

/** A server with one session at a time; `restart` forgets it, as a new process does. */
async function startExpress() {
  const methods: unknown[] = [];
  let transport: StreamableHTTPServerTransport;
  async function restart(): Promise<void> {
    const server = new Server({ name: "express", version: "1" }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [{ name: "echo", inputSchema: { type: "object" } }],
    }));
    server.setRequestHandler(CallToolRequestSchema, () => ({
      content: [{ type: "text", text: "ran" }],
    }));
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
    await server.connect(transport);
  }
  await restart();
  const app = express();
  app.use(express.json());
  app.post("/mcp", (request, response) => {
    methods.push(request.body.method);
    void transport.handleRequest(request, response, request.body);
  });
  return { ...(await listen(createServer(app))), methods, restart };
}

test("all calls run though GET is 404, in one session", async () => {
  const { url, methods } = await startExpress();
  const client = createHost("legacy");
  await client.connect(bridgedTo(url).transport);
  for (let call = 0; call < 6; call++)
    expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
  expect(methods.filter((method) => method === "initialize")).toHaveLength(1);
});

test("a restart with 400 Server not initialized begins a new session", async () => {
  const { url, methods, restart } = await startExpress();
  const client = createHost("legacy");
  await client.connect(bridgedTo(url).transport);
  await restart();
  expect((await client.listTools()).tools).toHaveLength(1);
  await restart();
  expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
  expect(methods.filter((method) => method === "initialize")).toHaveLength(3);
});
