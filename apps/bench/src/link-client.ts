/**
 * Asks a tool for a link and gets the file to nowhere, then tells what that took:
 * `node link-client.js ENDPOINT NAME WARM_UP_NAME`.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { reportWork } from "./lib/report-work.ts";

const [endpoint = "", name = "", warmUp = ""] = process.argv.slice(2);
const client = new Client(
  { name: "bench", version: "0.0.0" },
  { versionNegotiation: { mode: "auto" } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
const get = async (what: string): Promise<number> => {
  const result = await client.callTool({ name: "get_link", arguments: { name: what } });
  const [content] = result.content;
  if (content?.type !== "text") throw new Error("bench: no link");
  const answer = await fetch(content.text);
  if (!answer.ok || answer.body === null) throw new Error(`bench: HTTP ${answer.status}`);
  let bytes = 0;
  for await (const chunk of answer.body) bytes += chunk.length;
  return bytes;
};
await get(warmUp);
await reportWork(() => get(name));
// connections that are kept alive would keep the process
process.exit();
