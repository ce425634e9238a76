// The server of the guide about hosts that start a command: run by e2e/examples.test.ts.
// #region server
import { once } from "node:events";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createHandler, createSluice, createUploads } from "sluice";
import { createFsBackend, toNodeHandler } from "sluice/node";

const [, , files = "./files", inbox = "./uploads"] = process.argv;

// messages use stdin and stdout; bytes go over HTTP, only on this machine
const http = createServer();
http.listen(0, "127.0.0.1");
await once(http, "listening");
const { port } = Object(http.address());

const sluice = createSluice({
  storage: createFsBackend({ root: files }),
  baseUri: "files://demo/",
  endpoint: `http://127.0.0.1:${port}/mcp`,
});
const uploads = createUploads(sluice, {
  storage: createFsBackend({ root: inbox, writable: true }),
  scan: "none",
});

function createDemo() {
  const mcp = new McpServer({ name: "demo", version: "1.0.0" });
  uploads.registerTool(
    mcp,
    "measure",
    {
      description: "Says how large a file of the user is",
      message: "Which file shall I measure?",
      fields: { file: { type: "file", title: "File", maxBytes: 10_000_000 } },
    },
    ({ files: { file } }) => `${file.name} has ${file.size} bytes.`,
  );
  return sluice.attach(mcp, { tools: true });
}

http.on("request", toNodeHandler(createHandler({ sluice, uploads })));
http.unref(); // the process ends when the host closes stdin
serveStdio(createDemo);
// #endregion
