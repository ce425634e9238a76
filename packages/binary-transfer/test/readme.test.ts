import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, type Sluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
// #region open
import { openBinary, readBinary, type ReadingClient } from "@sluice/binary-transfer/client";

/** Counts the bytes of a resource and of the first content of a tool's result, whichever way they come. */
export async function countBytes(
  client: ReadingClient,
  uri: string,
  content: readonly object[],
): Promise<readonly [resource: number, result: number]> {
  const resource = await readBinary(client, uri);
  let bytes = 0;
  for await (const chunk of resource.body) bytes += chunk.length;

  const [first] = content;
  const picture = first && openBinary(first);
  let ofResult = 0;
  for await (const chunk of picture?.body ?? []) ofResult += chunk.length;
  return [bytes, ofResult];
}
// #endregion
import { describe, expect, test } from "vitest";
// #region serve
import { binaryContent, binaryReads } from "@sluice/binary-transfer";

/** A server whose resources and pictures go as bytes to clients that take them, as base64 to all others. */
export function createServer(sluice: Sluice, takePicture: () => Promise<Uint8Array>): McpServer {
  const mcp = new McpServer({ name: "pictures", version: "1.0.0" });
  sluice.attach(mcp, { stream: false, binary: binaryReads });
  mcp.registerTool("take_picture", {}, async (ctx) => {
    const bytes = await takePicture();
    return { content: [await binaryContent(ctx, { type: "image", mimeType: "image/png", bytes })] };
  });
  return mcp;
}
// #endregion

describe("README", () => {
  test("a server like that can be made", () => {
    const sluice = createSluice({
      storage: createMemoryBackend(),
      baseUri: "files://demo/",
      keys: "ephemeral",
      endpoint: "http://127.0.0.1/mcp",
      anonymous: true,
      onWarning: () => {},
    });
    const mcp = createServer(sluice, async () => new Uint8Array(3));
    expect(() => mcp.registerTool("take_picture", {}, () => ({ content: [] }))).toThrow(/already/);
  });

  test("a client reads either way", async () => {
    const data = btoa("four");
    const client = { readResource: async () => ({ contents: [{ uri: "a:b", text: "text" }] }) };
    expect(await countBytes(client, "a:b", [{ type: "image", data }])).toEqual([4, 4]);
  });
});
