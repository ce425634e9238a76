// Serves uploads into a folder until it is killed: node serving-process.mjs <folder> <key> <steps or parts>
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";

const [root = "", keys = "", kind] = process.argv.slice(2);
const folder = { ...createFsBackend({ root, writable: true }) };
if (kind === "parts") delete folder.writeInSteps;
const sluice = createSluice({
  storage: createMemoryBackend(),
  baseUri: "files://demo/",
  // slots are for this address, wherever the process that made them listened
  endpoint: "http://127.0.0.1:1/mcp",
  keys,
  onWarning: () => {},
  onError: () => {},
});
const uploads = createUploads(sluice, {
  storage: folder,
  scan: "none",
  maxBytes: 2 * 2 ** 30,
  limits: { requests: { perPrincipal: 100 }, fileBytes: { perPrincipal: 200 * 2 ** 30 } },
});
const mcp = withSluice({ fetch: async () => new Response() }, sluice);
const server = createServer(toNodeHandler(withUploads(mcp, uploads)));
server.listen(0, "127.0.0.1");
server.once("listening", () => void announce());

async function announce(): Promise<void> {
  const { port } = server.address() as AddressInfo;
  const terms = { accept: [], maxBytes: 2 * 2 ** 30, maxFiles: 100 };
  const slots = Array.from({ length: 2 }, () => uploads.reserve(undefined, terms));
  const urls = (await Promise.all(slots)).map(({ url }) => url);
  process.stdout.write(`${JSON.stringify({ port, urls })}\n`);
}
process.on("message", () => process.send?.(process.memoryUsage().rss));
