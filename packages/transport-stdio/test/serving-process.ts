// A server over stdio with the files of a folder as resources, and a few tools.
import { createHash } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { binaryContent, binaryReads, openBinary } from "@sluice/binary-transfer";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { createStdioServerTransport } from "@sluice/transport-stdio";

const [root = "."] = process.argv.slice(2);

const sluice = createSluice({
  storage: createFsBackend({ root }),
  baseUri: "files://demo/",
  keys: "ephemeral",
  endpoint: "http://127.0.0.1/mcp",
  anonymous: true,
  onWarning: () => {},
});

const text = (value: unknown) => ({
  content: [{ type: "text" as const, text: JSON.stringify(value) ?? "" }],
});

serveStdio(
  () => {
    const mcp = new McpServer({ name: "stdio", version: "1.0.0" });
    sluice.attach(mcp, { stream: false, binary: binaryReads });
    for (const type of ["image", "audio", "blob"] as const)
      mcp.registerTool(type, {}, async (ctx) => {
        const bytes = new Uint8Array(300_000).fill(7);
        return { content: [await binaryContent(ctx, { type, mimeType: "x/y", bytes })] };
      });
    mcp.registerTool("rss", {}, () => text(process.memoryUsage().rss));
    mcp.registerTool("environment", {}, () => text(Object.keys(process.env)));
    mcp.registerTool("exit", {}, () => process.exit(3));
    // takes bytes of a request, which an SDK passes on in its own fields only
    mcp.server.setRequestHandler(
      "test/hash",
      { params: schemaOf<{ content: object }>() },
      async ({ content }) => {
        const hash = createHash("sha256");
        for await (const chunk of openBinary(content)!.body) hash.update(chunk);
        return { sha256: hash.digest("hex") };
      },
    );
    return mcp;
  },
  { transport: createStdioServerTransport() },
);

/** A schema that takes everything for what it should be. */
function schemaOf<Value>() {
  return {
    "~standard": {
      version: 1 as const,
      vendor: "test",
      types: undefined as unknown as { readonly input: Value; readonly output: Value },
      validate: (value: unknown) => ({ value: value as Value }),
    },
  };
}
