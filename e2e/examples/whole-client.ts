// The client of docs/guides/client/compose.md: run by e2e/examples.test.ts.
// #region client
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createStreaming, saveResource } from "@sluice/client";
import { createFileSender } from "@sluice/client/send";
import { withResumableFetch } from "@sluice/resume/client";

const endpoint = "http://127.0.0.1:2532/mcp";
const streaming = createStreaming({ fetch: withResumableFetch(), bytes: "node" });
const sender = createFileSender({
  endpoint,
  // ask the user here
  onFilesRequested: ({ fields }) => ({
    action: "accept",
    files: Object.fromEntries(fields.map(({ name }) => [name, ["poem.txt"]])),
  }),
});
const client = new (sender.extend(Client))(
  { name: "me", version: "1.0.0" },
  { capabilities: streaming.capabilities },
);
const fetch = sender.fetch(streaming.fetch);
await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { fetch }));

const { path } = await saveResource(client, "files://local/big.bin", "downloads/");
const { content } = await client.callTool(
  { name: "count_lines" },
  { onprogress: () => {}, resetTimeoutOnProgress: true },
);
console.log(path, content);
await client.close();
// #endregion
