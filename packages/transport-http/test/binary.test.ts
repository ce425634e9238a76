import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { binaryContent, binaryReads, openBinary } from "@sluice/binary-transfer";
import { createBinaryFetch, readBinary, type BinaryFetch } from "@sluice/binary-transfer/client";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { serve } from "./serve.ts";

const uri = "files://demo/a.bin";
const bytes = Buffer.alloc(300_000, "0123456789");
const storage = createMemoryBackend({ "a.bin": bytes });
const attach = { binary: binaryReads };

const read = async (body: ReadableStream<Uint8Array>): Promise<Buffer> =>
  Buffer.from(await new Response(body).arrayBuffer());

const eras = { legacy: "legacy", modern: "auto" } as const;

async function connect(era: keyof typeof eras, url: string, binary?: BinaryFetch): Promise<Client> {
  const client = new Client(
    { name: "test", version: "1" },
    { versionNegotiation: { mode: eras[era] } },
  );
  const transport = new StreamableHTTPClientTransport(
    new URL(url),
    binary ? { fetch: binary.fetch } : {},
  );
  await client.connect(transport);
  onTestFinished(async () => {
    await client.close();
    binary?.close();
  });
  return client;
}

describe.each(["legacy", "modern"] as const)("%s revision", (era) => {
  test(
    "a resource comes as a part where both ends declared it, and else in base64",
    { tags: "slow" },
    async () => {
      const { url } = await serve({ attach, binary: {}, sluice: { storage } });
      for (const [binary, transferMode] of [
        [createBinaryFetch(), "binary"],
        [undefined, "base64"],
      ] as const) {
        const got = await readBinary(await connect(era, url, binary), uri);
        expect([got.transferMode, got.size]).toEqual([transferMode, bytes.length]);
        expect((await read(got.body)).equals(bytes)).toBe(true);
      }
      const old = await serve({ attach, sluice: { storage } });
      const got = await readBinary(await connect(era, old.url, createBinaryFetch()), uri);
      expect(got.transferMode).toBe("base64");
    },
  );

  test.each(["first", "after something else"])(
    "tools take and give bytes as streams: the result comes %s",
    async (order) => {
      const content = Buffer.alloc(3_000_000, "tool");
      const { url, errors } = await serve({
        binary: {},
        sluice: { storage },
        register: (mcp) => {
          mcp.registerTool(
            "echo",
            { inputSchema: z.object({ file: z.looseObject({}) }) },
            async ({ file }, ctx) => {
              if (order !== "first")
                await ctx.mcpReq.notify({
                  method: "notifications/progress",
                  params: { progressToken: 1, progress: 1 },
                });
              const opened = openBinary(file)!;
              const back = await binaryContent(ctx, {
                type: "image",
                mimeType: "image/png",
                bytes: { source: { body: opened.body }, size: opened.size },
              });
              return { content: [back] };
            },
          );
        },
      });
      const binary = createBinaryFetch();
      const client = await connect(era, url, binary);
      const file = await binaryContent(binary.outlet!, {
        type: "blob",
        mimeType: "text/plain",
        bytes: content,
      });
      const result = await client.callTool({ name: "echo", arguments: { file } });
      const opened = openBinary((result.content as object[])[0]!)!;
      expect(opened.transferMode).toBe(order === "first" ? "binary" : "base64");
      expect((await read(opened.body)).equals(content)).toBe(true);
      expect(errors).toEqual([]);
    },
  );
});
