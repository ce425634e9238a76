/**
 * Files over stdio: `node stdio-server.js binary|base64|official|raw DIRECTORY [NAME]`. `binary` is Sluice;
 * `base64` reads into JSON over the same transport, `official` over that of the SDK; `raw` writes one
 * file to stdout and ends: what the pipe itself can do.
 */
import { open, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { binaryReads } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createStdioServerTransport } from "@sluice/transport-stdio";

const [mode, directory = ".", name = ""] = process.argv.slice(2);

if (mode === "raw") await writeFile(join(directory, name));
else if (mode === "official") serveStdio(base64Server);
else
  serveStdio(mode === "base64" ? base64Server : sluiceServer, {
    transport: createStdioServerTransport(),
  });

function base64Server(): McpServer {
  const server = new McpServer({ name: "base64", version: "0.0.0" });
  const files = new ResourceTemplate("files://bench/{name}", { list: undefined });
  server.registerResource("file", files, {}, async (uri) => {
    const bytes = await readFile(join(directory, basename(uri.pathname)));
    return { contents: [{ uri: uri.href, blob: bytes.toString("base64") }] };
  });
  return server;
}

function sluiceServer(): McpServer {
  const sluice = createSluice({
    storage: createFsBackend({ root: directory }),
    baseUri: "files://bench/",
    keys: "ephemeral",
    endpoint: "http://127.0.0.1/mcp",
    anonymous: true,
    onWarning: () => {},
  });
  const server = new McpServer({ name: "sluice", version: "0.0.0" });
  return sluice.attach(server, { stream: false, binary: binaryReads });
}

/** Two buffers, one being written while the other fills. */
async function writeFile(path: string): Promise<void> {
  const file = await open(path);
  const buffers = [Buffer.alloc(2 ** 18), Buffer.alloc(2 ** 18)] as const;
  let written: Promise<void> | undefined;
  for (let turn = 0; ; turn += 1) {
    const { bytesRead, buffer } = await file.read(buffers[(turn % 2) as 0 | 1]);
    await written;
    if (bytesRead === 0) break;
    written = new Promise((resolve) => {
      process.stdout.write(buffer.subarray(0, bytesRead), () => resolve());
    });
  }
  await file.close();
}
