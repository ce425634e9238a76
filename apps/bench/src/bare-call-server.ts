/**
 * The least that answers `resources/stream` through the official SDK: `node bare-call-server.js FILE`. The SDK takes
 * the call, and the same few bytes from memory go out in the place of its answer. No check, no file, no link.
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { toWebRequest, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const [file = ""] = process.argv.slice(2);
const schemas = { params: z.looseObject({ uri: z.string() }), result: z.looseObject({}) };
const mcp = createMcpHandler(() => {
  const server = new McpServer({ name: "bench", version: "0.0.0" });
  server.server.setRequestHandler("resources/stream", schemas, ({ uri }) => ({ uri }));
  return server;
});

const bytes = readFileSync(file);

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const request = await toWebRequest(req as NodeIncomingMessageLike);
  const parsedBody = (await request.json()) as { method?: string };
  const answered = await mcp.fetch(request, { parsedBody });
  const isStream = parsedBody.method === "resources/stream";
  const body = isStream ? bytes : Buffer.from(await answered.arrayBuffer());
  const type = isStream ? "application/octet-stream" : "application/json";
  res.writeHead(answered.status, { "Content-Type": type, "Content-Length": body.length });
  res.end(body);
}

const server = createServer((req, res) => void answer(req, res).catch(() => res.destroy()));
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { readonly port: number };
  console.log(JSON.stringify({ port, endpoint: `http://127.0.0.1:${port}/mcp` }));
});
