// @module-tag slow
// The first clients of the docs type-check in projects of users: with the settings of Node, of bundlers and of Bun, and with
// both versions of the SDK. `fences.test.ts` checks all code of the docs.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  consumerSettings,
  openConsumerProject,
  type ConsumerProject,
} from "./bed/consumer-project.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
let project: ConsumerProject;
beforeAll(async () => {
  project = await openConsumerProject();
}, 120_000);
afterAll(() => project[Symbol.asyncDispose]());

const example = (name: string): Promise<string> =>
  readFile(join(root, "e2e/examples", name), "utf8");

const withSdk1 = `
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createStreaming, saveResource, streamResource } from "sluice/client";

const { fetch, capabilities } = createStreaming();
const client = new Client({ name: "me", version: "1.0.0" }, { capabilities });
const endpoint = new URL("http://127.0.0.1:2532/mcp");
await client.connect(new StreamableHTTPClientTransport(endpoint, { fetch }));
const { path, sha256 }: { path: string; sha256: string } = await saveResource(client, "a:b", "c/");
const stream = await streamResource(client, "a:b");
const { size }: { size: number } = await stream.saveTo("c/", { connections: 4 });
console.log(path, sha256, size);
`;

/** Tools that ask, in a server of each SDK: what `ask` returns is a result of that SDK. */
const asking = (sdk: string): string => `
import { McpServer } from "${sdk}";
import { createSluice, createUploads, fileInput, hostFileInput, openAiFileMeta, uploadIdInput } from "sluice";
import { createFsBackend } from "sluice/node";
import { z } from "zod";

const sluice = createSluice({ storage: createFsBackend({ root: "files" }) });
const storage = createFsBackend({ root: "uploads", writable: true });
const uploads = createUploads(sluice, { storage, scan: "none" });
const mcp = new McpServer({ name: "demo", version: "1.0.0" });
const inputSchema = z.object({ upload_id: uploadIdInput() });
mcp.registerTool("measure", { inputSchema }, async ({ upload_id }, ctx) => {
  const fields = { file: { type: "file", title: "File" } } as const;
  const outcome = await uploads.ask({ message: "Which?", fields, uploadId: upload_id }, { mcp, ctx });
  if (outcome.action === "ask") return outcome.result;
  if (outcome.action !== "accept") return { isError: true, content: [{ type: "text", text: "none" }] };
  return { content: [{ type: "text", text: String(outcome.files.file.size) }] };
});
const given = { inputSchema: z.object({ text: fileInput({}), attached: hostFileInput().optional() }) };
mcp.registerTool("open", { ...given, _meta: openAiFileMeta(["attached"]) }, async ({ text, attached }, ctx) => {
  const { size } = await uploads.open(attached ?? text, {}, { mcp, ctx });
  const { url } = await sluice.link("files://local/a", { mcp, ctx });
  const caller = await sluice.principal({ mcp, ctx });
  return { content: [{ type: "text", text: url + size + caller?.subject }] };
});
uploads.registerTool(mcp, "count", { message: "Which?", fields: { text: { type: "file" } } }, ({ files }) => files.text.text());
uploads.attach(sluice.attach(mcp, { tools: true }));
`;

test.each(Object.entries(consumerSettings))("first clients under %s", async (_, options) => {
  const errors = await project.check(options, {
    "first.ts": await example("first-client.ts"),
    "own.ts": await example("client.ts"),
    "sdk1.ts": withSdk1,
    "asking1.ts": asking("@modelcontextprotocol/sdk/server/mcp.js"),
    "asking2.ts": asking("@modelcontextprotocol/server"),
  });
  expect(errors).toEqual([]);
});

test("wrong calls are type errors, each at its line", async () => {
  const errors = await project.check(consumerSettings.bundler, {
    "wrong.ts": `import { connect, createStreaming, saveResource } from "sluice/client";
const client = await connect("http://127.0.0.1:2532/mcp");
await saveResource(client, "a:b");
await saveResource(client, "a:b", "c/", { conections: 4 });
await connect("http://127.0.0.1:2532/mcp", { token: 7 });
createStreaming({ bytes: "nodejs" });
await saveResource({}, "a:b", "c/");
await client.noSuchMethod();
`,
  });
  const lines = errors.map((error) => /^wrong\.ts\((\d+),/.exec(error)?.[1]);
  expect(lines).toEqual(["3", "4", "5", "6", "7", "8"]);
});
