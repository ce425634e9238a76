// The client of SDK v1 in the README of @sluice/client: run by e2e/examples.test.ts.
// #region client
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createStreaming, saveResource } from "@sluice/client";

const { fetch, capabilities } = createStreaming();
const client = new Client({ name: "me", version: "1.0.0" }, { capabilities });
const endpoint = new URL("http://127.0.0.1:2532/mcp");
await client.connect(new StreamableHTTPClientTransport(endpoint, { fetch }));

const saved = await saveResource(client, "files://local/big.bin", "downloads/");
console.log(`${saved.path}: ${saved.size} bytes, sha-256 ${saved.sha256}`);
await client.close();
// #endregion
