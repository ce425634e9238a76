// The client of the README of its package: run by e2e/examples.test.ts.
// #region client
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createStreaming, saveResource } from "@sluice/client";

const { fetch, capabilities } = createStreaming();
const client = new Client(
  { name: "me", version: "1.0.0" },
  { capabilities, versionNegotiation: { mode: "auto" } },
);
const endpoint = new URL("http://127.0.0.1:2532/mcp");
await client.connect(new StreamableHTTPClientTransport(endpoint, { fetch }));

const saved = await saveResource(client, "files://demo/big.bin", "downloads/");
console.log(`${saved.path}: ${saved.size} bytes, sha-256 ${saved.sha256}`);
await client.close();
// #endregion
