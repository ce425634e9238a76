/** MCP servers with nothing but the official SDK: `node sdk-server.js KIND …`. */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { basename, join } from "node:path";
import {
  toNodeHandler,
  toWebRequest,
  type NodeIncomingMessageLike,
} from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { z } from "zod";
import { listen, wayOf } from "../lib/program.ts";

const [kind, ...args] = process.argv.slice(2);

function serve(register: (server: McpServer) => unknown) {
  return createMcpHandler(() => {
    const server = new McpServer({ name: "bench", version: "0.0.0" });
    register(server);
    return server;
  });
}

function listenerOf(mcp: ReturnType<typeof serve>): RequestListener {
  const handler = toNodeHandler(mcp);
  return (request, response) => void handler(request as never, response);
}

const kinds: Readonly<Record<string, () => RequestListener>> = {
  /** What Sluice replaces, files as base64 in `resources/read`: `DIRECTORY`. */
  base64() {
    const [directory = "."] = args;
    const files = new ResourceTemplate("files://bench/{name}", { list: undefined });
    const mcp = serve((server) =>
      server.registerResource("file", files, {}, async (uri) => {
        const bytes = await readFile(join(directory, basename(uri.pathname)));
        return { contents: [{ uri: uri.href, blob: bytes.toString("base64") }] };
      }),
    );
    return listenerOf(mcp);
  },
  /**
   * The least that answers `resources/stream`: `FILE`. The SDK takes the call, and the same few bytes from memory go out in
   * the place of its answer. No check, no file, no link.
   */
  "bare-call"() {
    const bytes = readFileSync(args[0] ?? "");
    const schemas = { params: z.looseObject({ uri: z.string() }), result: z.looseObject({}) };
    const mcp = serve(({ server }) =>
      server.setRequestHandler("resources/stream", schemas, ({ uri }) => ({ uri })),
    );
    return (req, res) => {
      const answer = async (incoming: IncomingMessage): Promise<void> => {
        const request = await toWebRequest(incoming as NodeIncomingMessageLike);
        const parsedBody = (await request.json()) as { method?: string };
        const answered = await mcp.fetch(request, { parsedBody });
        const isStream = parsedBody.method === "resources/stream";
        const body = isStream ? bytes : Buffer.from(await answered.arrayBuffer());
        const type = isStream ? "application/octet-stream" : "application/json";
        res.writeHead(answered.status, { "Content-Type": type, "Content-Length": body.length });
        res.end(body);
      };
      answer(req).catch(() => res.destroy());
    };
  },
  /** A tool that gives a link with a time and an HMAC, as many servers write it by hand: `ORIGIN SECRET`. */
  links() {
    const [origin = "", secret = ""] = args;
    const inputSchema = z.object({ name: z.string() });
    const mcp = serve((server) =>
      server.registerTool("get_link", { inputSchema }, async ({ name }) => {
        const until = Math.floor(Date.now() / 1000) + 900;
        const signature = createHmac("sha256", secret).update(`${name} ${until}`).digest("hex");
        const text = `${origin}/${name}?until=${until}&signature=${signature}`;
        return { content: [{ type: "text", text }] };
      }),
    );
    return listenerOf(mcp);
  },
};

listen(createServer(wayOf(kinds, kind)()));
