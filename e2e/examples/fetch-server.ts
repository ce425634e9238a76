// The server for Bun and Deno of docs/guides/server/runtimes.md: run by e2e/scenarios/portable.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createHandler, createMemoryBackend, createSluice } from "sluice";

const sluice = createSluice({ storage: createMemoryBackend({ "hello.txt": "Hello" }) });
const create = () =>
  sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }), { tools: true });
const handler = createHandler({ sluice, create });

export default {
  hostname: "127.0.0.1",
  port: 2532,
  idleTimeout: 120, // seconds, in Bun: the default of 10 ends streams between two heartbeats
  fetch: (request: Request): Promise<Response> => handler.fetch(request),
};
// #endregion
