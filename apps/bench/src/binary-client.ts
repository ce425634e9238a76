/**
 * Reads one resource as bytes beside its message, or as base64, then tells what that took:
 * `node binary-client.js multipart|frames|socket-base64 ENDPOINT URI WARM_UP_URI`.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createBinaryFetch, readBinary } from "@sluice/binary-transfer/client";
import { createWebSocketTransport } from "@sluice/transport-ws/client/node";
import { reportWork } from "./lib/report-work.ts";

const [mode = "", endpoint = "", uri = "", warmUp = ""] = process.argv.slice(2);
const client = new Client(
  { name: "bench", version: "0.0.0" },
  { versionNegotiation: { mode: "auto" } },
);
await client.connect(transport());
await read(warmUp);
await reportWork(() => read(uri));
await client.close();

function transport() {
  if (mode === "multipart")
    return new StreamableHTTPClientTransport(new URL(endpoint), {
      fetch: createBinaryFetch().fetch,
    });
  return createWebSocketTransport(endpoint.replace("http:", "ws:"), {
    maxMessageBytes: 2 ** 30,
    ...(mode === "frames" && { binary: {} }),
  });
}

async function read(what: string): Promise<number> {
  if (mode === "socket-base64") {
    const { contents } = await client.readResource({ uri: what }, { timeout: 120_000 });
    const [content] = contents;
    if (content === undefined || !("blob" in content)) throw new Error("bench: no blob");
    return Buffer.from(content.blob, "base64").length;
  }
  const { body, transferMode } = await readBinary(client, what);
  if (transferMode !== "binary") throw new Error("bench: nothing was negotiated");
  let bytes = 0;
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) bytes += chunk.length;
  return bytes;
}
