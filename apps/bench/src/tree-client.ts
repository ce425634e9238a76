/**
 * Saves every resource of a server, several at a time, then tells what that took:
 * `node tree-client.js ENDPOINT DIRECTORY JOBS`.
 */
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamingCapabilities, streamResource, withStreaming } from "@sluice/client";
import { reportWork } from "./lib/report-work.ts";

const [endpoint = "", directory = "", jobs = "1"] = process.argv.slice(2);
const maxStreamSize = 1024 ** 3;
const client = new Client(
  { name: "bench", version: "0.0.0" },
  {
    capabilities: streamingCapabilities({ maxStreamSize }),
    versionNegotiation: { mode: "auto" },
    // the SDK gives up after 64 pages
    listMaxPages: 0,
  },
);
await client.connect(
  new StreamableHTTPClientTransport(new URL(endpoint), { fetch: withStreaming() }),
);

await reportWork(async () => {
  const { resources } = await client.listResources();
  const uris = resources.values();
  let bytes = 0;
  const job = async (): Promise<void> => {
    for (const { uri } of uris) {
      const stream = await streamResource(client, uri, { maxStreamSize });
      const name = new URL(uri).pathname.slice(1);
      const { size } = await stream.saveTo(join(directory, name));
      bytes += size;
    }
  };
  await Promise.all(Array.from({ length: Number(jobs) }, job));
  return bytes;
});
await client.close();
