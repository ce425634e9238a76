// The client of the README: run by e2e/examples.test.ts.
// #region client
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamingCapabilities, streamResource, withStreaming } from "sluice/client";

const endpoint = new URL(process.argv[2] ?? "http://127.0.0.1:2532/mcp");
const transport = new StreamableHTTPClientTransport(endpoint, { fetch: withStreaming() });
const client = new Client(
  { name: "me", version: "1.0.0" },
  { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
);
await client.connect(transport);

const stream = await streamResource(client, "files://local/big.bin");
const saved = await stream.saveTo("downloads/");
console.log(`${saved.path}: ${saved.size} bytes, sha-256 ${saved.sha256}`);
await client.close();
// #endregion
