import { createMcpHandler, McpServer, requireScopes } from "@modelcontextprotocol/server";
import { EXTENSION_ID } from "@sluice/core/internal";
import type { SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { z } from "zod";
import { createHouse } from "./redeeming.ts";

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };

/** The result of a tool that gives a link to `name`. */
async function linked(
  name: string,
  { previewBytes, ...options }: Partial<SluiceOptions> & { previewBytes?: number } = {},
) {
  const storage = createMemoryBackend({
    "t.txt": "grüße\nand more",
    "b.bin": new Uint8Array([1, 2]),
    "none.txt": "",
    "own.txt": "in storage",
  });
  const house = createHouse({
    ...open,
    storage,
    access: (_who, uri) => (uri.includes("hidden") ? "hide" : "allow"),
    ...options,
  } as Partial<SluiceOptions>);
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    mcp.registerResource("own", "files://demo/own.txt", {}, () => ({ contents: [] }));
    mcp.registerTool("link", { inputSchema: z.object({}) }, async (_args, ctx) => ({
      content: await house.sluice.resourceLink(`files://demo/${name}`, {
        mcp,
        ctx,
        ...(previewBytes !== undefined && { previewBytes }),
      }),
    }));
    return house.sluice.attach(mcp);
  });
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "link" } };
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  const request = new Request("http://127.0.0.1/mcp", { method: "POST", headers, body: "{}" });
  const authInfo = { token: "t", clientId: "c", scopes: [] };
  const response = await handler.fetch(request, { parsedBody: body, authInfo });
  const { result } = JSON.parse(/^data: ?(\{.*\})$/m.exec(await response.text())![1]!);
  return { ...house, storage, result, content: result.content };
}

const etagIn = (block: any): string => block._meta[EXTENSION_ID].etag;

test("a link has the metadata of a list entry; the preview is whole characters of the same version [ARTICLE/7/resource-link]", async () => {
  const { content, records } = await linked("t.txt", { previewBytes: 3 });
  expect(content).toMatchObject([
    {
      type: "resource_link",
      uri: "files://demo/t.txt",
      name: "t.txt",
      mimeType: "text/plain",
      size: 16,
      _meta: { [EXTENSION_ID]: { streamable: true } },
    },
    {
      type: "text",
      text: "grü",
      _meta: { [EXTENSION_ID]: { range: "bytes 0-3", next: "bytes 4-" } },
    },
  ]);
  expect(etagIn(content[1])).toBe(etagIn(content[0]));
  expect(records).toMatchObject([{ action: "read", outcome: "complete", bytes: 4 }]);
});

test("a resource that is replaced in between gives a link to the version of the preview", async () => {
  const memory = createMemoryBackend({ "t.txt": "old" });
  const storage = wrapBackend(memory, {
    describe: (describe) => async (key, options) => {
      const info = await describe(key, options);
      memory.put("t.txt", "newer");
      return info;
    },
  });
  const { content } = await linked("t.txt", { storage });
  expect(content).toMatchObject([{ size: 5 }, { text: "newer" }]);
  expect(etagIn(content[1])).toBe(etagIn(content[0]));
  expect(etagIn(content[0])).toBe(`"${(await memory.describe("t.txt")).etag}"`);
});

test.each(["b.bin", "none.txt"])("%s has no text to show: the link comes alone", async (name) => {
  expect((await linked(name)).content).toMatchObject([{ type: "resource_link", name }]);
});

test("without a preview nothing is opened", async () => {
  const { content } = await linked("t.txt", { previewBytes: 0 });
  expect(content).toHaveLength(1);
});

test("a resource that the caller may not read is not linked, and looks missing; nor is one that the author serves", async () => {
  const [hidden, missing] = await Promise.all([linked("hidden.txt"), linked("missin.txt")]);
  expect(hidden.result).toMatchObject({ isError: true });
  const texts = [hidden, missing].map(({ result }) =>
    JSON.stringify(result).replaceAll(/hidden|missin/g, "x"),
  );
  expect(texts[0]).toBe(texts[1]);
  const own = await linked("own.txt");
  expect(own.result).toMatchObject({ isError: true });
  const scoped = await linked("t.txt", { scopeChallenge: requireScopes("files:read") });
  expect(scoped.result).toMatchObject({ isError: true });
});
