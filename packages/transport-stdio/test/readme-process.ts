// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { binaryReads } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createStdioServerTransport } from "@sluice/transport-stdio";

const sluice = createSluice({
  storage: createFsBackend({ root: process.argv[2] ?? "." }),
  baseUri: "files://demo/",
});

serveStdio(
  () => {
    const mcp = new McpServer({ name: "files", version: "1.0.0" });
    return sluice.attach(mcp, { binary: binaryReads });
  },
  { transport: createStdioServerTransport() },
);
// #endregion
