import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { formatKey, generateKey } from "@sluice/core";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { z } from "zod";
import { talkTo } from "./talking.ts";

test("the README's examples of the resources surface run", async () => {
  const storage = createMemoryBackend({ "logs/today.txt": "one\ntwo\nthree\n" });
  const base = {
    storage,
    baseUri: "files://acme/",
    endpoint: "http://127.0.0.1:3000/mcp",
    keys: formatKey(generateKey()),
  };

  // #region describe
  const sluice = createSluice({
    ...base,
    pageSize: 500,
    cacheTtlMs: 10_000,
    describe: ({ key }) =>
      key.startsWith("logs/")
        ? { title: `Log ${key.slice(5)}`, audience: ["assistant"], priority: 0.2 }
        : undefined,
  });
  // #endregion

  // #region link
  function createServer(): McpServer {
    const mcp = new McpServer({ name: "acme", version: "1.0.0" });
    mcp.registerTool(
      "find_log",
      { description: "Finds a log", inputSchema: z.object({ day: z.string() }) },
      async ({ day }, ctx) => ({
        content: await sluice.resourceLink(`files://acme/logs/${encodeURIComponent(day)}.txt`, {
          mcp,
          ctx,
          previewBytes: 500,
        }),
      }),
    );
    return sluice.attach(mcp, { tools: { read: "read_file", list: false, link: false } });
  }
  // #endregion

  // #region part
  const request = {
    method: "resources/read",
    params: {
      uri: "files://acme/logs/today.txt",
      _meta: { "dev.sluice/resource-streaming": { range: "lines 2-2" } },
    },
  };
  // #endregion

  expect(createServer().server.getCapabilities()).toMatchObject({ tools: {}, resources: {} });
  const { method, params } = request;
  const talk = talkTo(sluice);
  const { result } = (await talk("legacy", method, { params })).message;
  expect(result.contents[0]).toMatchObject({ text: "two\n" });
  const { resources } = (await talk("modern", "resources/list")).message.result;
  expect(resources[0]).toMatchObject({ title: "Log today.txt", annotations: { priority: 0.2 } });
});
