import { binaryContent, binaryReads, openBinary } from "@sluice/binary-transfer";
import { readBinary } from "@sluice/binary-transfer/client";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { connect, sdkNames } from "./connect.ts";
import { bytes, serve, uri } from "./serve.ts";

const attach = { binary: binaryReads };
const read = async (body: ReadableStream<Uint8Array>): Promise<Buffer> =>
  Buffer.from(await new Response(body).arrayBuffer());
const sizedOf = (content: Buffer) => ({
  source: { body: new Response(content).body!, bytes: content },
  size: content.length,
});

describe.each(sdkNames)("%s", (sdk) => {
  test("a resource comes as frames where both ends declared them, and else in base64", async () => {
    const { url } = await serve({ attach, ws: { binary: {} } });
    for (const [binary, transferMode] of [
      [{}, "binary"],
      [undefined, "base64"],
    ] as const) {
      const { client } = await connect(sdk, url, { ...(binary && { binary }) });
      const got = await readBinary(client, uri);
      expect([got.transferMode, got.size]).toEqual([transferMode, bytes.length]);
      expect((await read(got.body)).equals(bytes)).toBe(true);
    }
    const old = await serve({ attach });
    const { client } = await connect(sdk, old.url, { binary: {} });
    expect((await readBinary(client, uri)).transferMode).toBe("base64");
  });

  test("tools take and give bytes as streams", { tags: "slow" }, async () => {
    const content = Buffer.alloc(3_000_000, "tool");
    const { url, errors } = await serve({
      ws: { binary: {} },
      register: (mcp) => {
        mcp.registerTool(
          "echo",
          { inputSchema: z.object({ file: z.looseObject({}) }) },
          async ({ file }, ctx) => {
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
    const { client, transport } = await connect(sdk, url, { binary: {} });
    const file = await binaryContent(transport.outlet!, {
      type: "blob",
      mimeType: "text/plain",
      bytes: sizedOf(content),
    });
    const result = await client.callTool({ name: "echo", arguments: { file } });
    const opened = openBinary((result.content as object[])[0]!)!;
    expect((await read(opened.body)).equals(content)).toBe(true);
    expect(errors).toEqual([]);
  });
});
