// The server of the page about uploads: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, createUploads, uploadIdInput } from "sluice";
import { createFsBackend, serve } from "sluice/node";
import { z } from "zod";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://demo/",
});
const uploads = createUploads(sluice, {
  storage: createFsBackend({ root: "./uploads", writable: true }),
  unscanned: "allow",
});

function createDemo() {
  const mcp = new McpServer({ name: "demo", version: "1.0.0" });
  const inputSchema = z.object({ upload_id: uploadIdInput() });
  const config = { description: "Counts lines", inputSchema };
  mcp.registerTool("count_lines", config, async ({ upload_id: uploadId }, ctx) => {
    const outcome = await uploads.requestFiles(ctx, {
      mcp,
      uploadId,
      message: "Which text shall I count?",
      fields: { text: { type: "file", title: "Text", accept: ["text/*"], maxBytes: 10_000_000 } },
    });
    if (outcome.action === "ask") return outcome.result; // the tool is called again
    if (outcome.action !== "accept") return { content: [{ type: "text", text: "None came." }] };

    const { text } = outcome.files;
    let lines = 0;
    const { body } = await text.open();
    for await (const chunk of body) for (const byte of chunk) if (byte === 10) lines += 1;
    await text.remove();
    return { content: [{ type: "text", text: `${text.name} has ${lines} lines.` }] };
  });
  return sluice.attach(mcp);
}

await serve(sluice, createDemo, { uploads });
// #endregion
