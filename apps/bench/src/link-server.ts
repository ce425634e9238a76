/**
 * A tool that gives a link to a file, as many servers write it by hand: `node link-server.js ORIGIN SECRET`. The link
 * leads to ORIGIN and carries a time and an HMAC. Prints its endpoint as a line of JSON when it listens.
 */
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const [origin = "", secret = ""] = process.argv.slice(2);

const mcp = createMcpHandler(() => {
  const server = new McpServer({ name: "links", version: "0.0.0" });
  server.registerTool(
    "get_link",
    { inputSchema: z.object({ name: z.string() }) },
    async ({ name }) => {
      const until = Math.floor(Date.now() / 1000) + 900;
      const signature = createHmac("sha256", secret).update(`${name} ${until}`).digest("hex");
      const text = `${origin}/${name}?until=${until}&signature=${signature}`;
      return { content: [{ type: "text", text }] };
    },
  );
  return server;
});

const handler = toNodeHandler(mcp);
const server = createServer((request, response) => void handler(request as never, response));
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  console.log(JSON.stringify({ port, endpoint: `http://127.0.0.1:${port}/mcp` }));
});
