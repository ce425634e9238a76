import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { generateKey } from "@sluice/core";
import { createFileSender } from "@sluice/client/send";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { createToolServer } from "../../packages/uploads/test/asking.ts";
import { startUploadServer } from "../../packages/uploads/test/upload-server.ts";
import { hasRedis, startRedis } from "../bed/redis.ts";

const fields = { file: { type: "file" } } as const;

describe.runIf(hasRedis)(
  "a tool that asks for a file while Redis is full",
  { tags: "slow" },
  () => {
    async function serve() {
      const server = await startRedis();
      const redis = new Redis({ path: server.path });
      onTestFinished(async () => {
        redis.disconnect();
        await server[Symbol.asyncDispose]();
      });
      let requests = 0;
      const site = await startUploadServer({
        sluice: { keys: [generateKey()], stores: createRedisStores({ redis, durable: true }) },
      });
      site.server.on("request", () => (requests += 1));
      const tool = createToolServer(site.sluice, async (mcp, ctx) => {
        const request = { message: "A file, please", fields };
        const outcome = await site.uploads.ask(request, { mcp, ctx });
        if (outcome.action === "ask") return outcome.result;
        return { content: [{ type: "text", text: outcome.action }] };
      });
      const fill = () => redis.config("SET", "maxmemory", "1");
      return { site, tool, fill, requests: () => requests };
    }

    test("legacy: ends the call when the file has no place, without a long wait", async () => {
      const { site, tool, fill, requests } = await serve();
      const files = createFileSender({
        endpoint: site.url,
        async onFilesRequested() {
          await fill();
          return {
            action: "accept",
            files: { file: [{ blob: new Blob([Buffer.alloc(20 * 2 ** 20)]), name: "a.txt" }] },
          };
        },
      });
      const client = new (files.extend(Client))(
        { name: "test", version: "1" },
        { versionNegotiation: { mode: "legacy" } },
      );
      const transport = new StreamableHTTPClientTransport(new URL(site.url), {
        fetch: files.fetch(tool),
        requestInit: { headers: { authorization: "Bearer alice" } },
      });
      await client.connect(transport);
      onTestFinished(() => client.close());
      const { isError, content } = await client.callTool({ name: "look", arguments: {} });
      const [{ text }] = content as unknown as [{ text: string }];
      expect([isError, text]).toEqual([true, expect.not.stringMatching(/redis/i)]);
      expect({ text, requests: requests() }).toMatchObject({
        requests: expect.toSatisfy((n) => n < 4),
      });
    });

    test("legacy: and when it was full before, in words for a model", async () => {
      const { site, tool, fill } = await serve();
      await fill();
      const client = new Client({ name: "test", version: "1" });
      const transport = new StreamableHTTPClientTransport(new URL(site.url), {
        fetch: tool,
        requestInit: { headers: { authorization: "Bearer alice" } },
      });
      await client.connect(transport);
      onTestFinished(() => client.close());
      const { isError, content } = await client.callTool({ name: "look", arguments: {} });
      expect([isError, content]).toEqual([true, [expect.not.objectContaining({ text: /redis/i })]]);
    });
  },
);
