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
  { capabilities: streamingCapabilities({ maxStreamSize }), versionNegotiation: { mode: "auto" } },
);
await client.connect(
  new StreamableHTTPClientTransport(new URL(endpoint), { fetch: withStreaming() }),
);

/** All that the server lists, page after page. */
async function* listAll(): AsyncGenerator<string> {
  let cursor: string | undefined;
  do {
    const page = await client.listResources(cursor === undefined ? {} : { cursor });
    yield* page.resources.map(({ uri }) => uri);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
}

await reportWork(async () => {
  const uris = listAll();
  let bytes = 0;
  const job = async (): Promise<void> => {
    for (let next = await uris.next(); !next.done; next = await uris.next()) {
      const stream = await streamResource(client, next.value, { maxStreamSize });
      const name = new URL(next.value).pathname.slice(1);
      const { size } = await stream.saveTo(join(directory, name));
      bytes += size;
    }
  };
  await Promise.all(Array.from({ length: Number(jobs) }, job));
  return bytes;
});
await client.close();
