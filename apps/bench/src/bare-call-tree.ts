/**
 * The least that saves many files through the official SDK: a call of `resources/stream` for each, whose direct answer
 * goes to `saveBare` before the SDK sees an empty one: `node bare-call-tree.js ENDPOINT DIRECTORY JOBS`. It syncs.
 */
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamingCapabilities } from "@sluice/client";
import { z } from "zod";
import { saveBare } from "./lib/bare-file.ts";
import { reportWork } from "./lib/report-work.ts";

const [endpoint = "", directory = "", jobs = "1"] = process.argv.slice(2);
const capabilities = streamingCapabilities({ maxStreamSize: 1024 ** 3 });
const pathOf = (uri: string): string => join(directory, new URL(uri).pathname.slice(1));
const saved = { bytes: 0 };

const client = new Client(
  { name: "bench", version: "0.0.0" },
  { capabilities, versionNegotiation: { mode: "auto" }, listMaxPages: 0 },
);
await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { fetch: fetchAndSave }));

async function fetchAndSave(url: string | URL, init?: RequestInit): Promise<Response> {
  const answer = await fetch(url, init);
  const uri = answer.headers.get("mcp-resource-uri");
  if (uri === null || !answer.body) return answer;
  const size = await saveBare(answer.body, pathOf(uri), true);
  saved.bytes += size;
  const { id } = JSON.parse(init?.body as string) as { readonly id: number };
  return Response.json({ jsonrpc: "2.0", id, result: { resultType: "complete" } });
}

await reportWork(async () => {
  const { resources } = await client.listResources();
  const uris = resources.values();
  const job = async (): Promise<void> => {
    for (const { uri } of uris)
      await client.request({ method: "resources/stream", params: { uri } }, z.looseObject({}));
  };
  await Promise.all(Array.from({ length: Number(jobs) }, job));
  return saved.bytes;
});
await client.close();
