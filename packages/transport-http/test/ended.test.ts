// @module-tag slow
import { type McpFetchHandler } from "@sluice/transport-http";
import { withBinary } from "@sluice/transport-http/internal";
import { expect, test } from "vitest";
import { memoryGrowth } from "../../core/test/memory-growth.ts";

const connections = process.env["SLUICE_DEEP"] ? 3_000 : 200;

const streamId = "11111111-1111-4111-8111-111111111111";

/** A request that announces 64 KiB, and ends after the first of them. */
function broken(): Request {
  const params = {
    name: "read",
    arguments: { file: { type: "image", binaryRef: { streamId, size: 65_536 } } },
    _meta: {
      "io.modelcontextprotocol/clientCapabilities": {
        binaryTransfer: { supported: true, preferredMode: "multipart" },
      },
    },
  };
  const json = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const lines = ["--b", "Content-Type: application/json", "", json];
  return new Request("http://localhost/mcp", {
    method: "POST",
    headers: { "content-type": "multipart/mixed; boundary=b" },
    body: [...lines, "--b", `Content-ID: <${streamId}>`, "", "x".repeat(30_000)].join("\r\n"),
  });
}

test(`${connections} requests of several parts that break off leave less than 1 MiB and 1 KiB each`, async () => {
  const handler = withBinary<McpFetchHandler>({
    fetch: async () => Response.json({ jsonrpc: "2.0", id: 1, result: { content: [] } }),
  });
  const grown = await memoryGrowth(async (count) => {
    for (let i = 0; i < count; i += 1) await (await handler.fetch(broken())).text();
  }, connections);
  expect(grown).toBeLessThan(2 ** 20 + 1_024 * connections);
});
