/**
 * Streams one resource with Sluice's client, to nowhere or verified to a file, then tells what that
 * took: `node sluice-client.js ENDPOINT URI WARM_UP_URI [TRUSTED_ORIGIN [PATH [CONNECTIONS]]]`.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamingCapabilities, streamResource, withStreaming } from "@sluice/client";
import { reportWork } from "./lib/report-work.ts";

const [endpoint = "", uri = "", warmUp = "", trustedOrigin = "", path = "", connections = "1"] =
  process.argv.slice(2);
const maxStreamSize = 16 * 1024 ** 3;
const client = new Client(
  { name: "bench", version: "0.0.0" },
  {
    capabilities: streamingCapabilities({ maxStreamSize }),
    versionNegotiation: { mode: "auto" },
  },
);
await client.connect(
  new StreamableHTTPClientTransport(new URL(endpoint), { fetch: withStreaming() }),
);
const open = (what: string) =>
  streamResource(client, what, {
    maxStreamSize,
    ...(trustedOrigin && { trustedOrigins: [trustedOrigin] }),
  });
const take = async (what: string): Promise<number> => {
  const reader = (await open(what)).body.getReader({ mode: "byob" });
  let buffer = new ArrayBuffer(256 * 1024);
  for (let bytes = 0; ;) {
    const { done, value } = await reader.read(new Uint8Array(buffer));
    if (done) return bytes;
    bytes += value.byteLength;
    buffer = value.buffer;
  }
};
await take(warmUp);
await reportWork(async () => {
  if (path === "") return take(uri);
  return (await (await open(uri)).saveTo(path, { connections: Number(connections) })).size;
});
await client.close();
