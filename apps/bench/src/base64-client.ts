/**
 * Reads one resource with the official SDK's client, then tells what that took:
 * `node base64-client.js ENDPOINT URI WARM_UP_URI`.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { reportWork } from "./lib/report-work.ts";

const [endpoint = "", uri = "", warmUp = ""] = process.argv.slice(2);
const client = new Client(
  { name: "bench", version: "0.0.0" },
  { versionNegotiation: { mode: "auto" } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
const read = async (what: string): Promise<number> => {
  const { contents } = await client.readResource({ uri: what }, { timeout: 120_000 });
  const [content] = contents;
  if (content === undefined || !("blob" in content)) throw new Error("bench: no blob");
  return Buffer.from(content.blob, "base64").length;
};
await read(warmUp);
await reportWork(() => read(uri));
await client.close();
