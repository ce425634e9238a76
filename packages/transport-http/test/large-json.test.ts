import { request } from "node:http";
import { once } from "node:events";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { serve } from "./serve.ts";

/** What a server says to a body that comes in these pieces. */
async function send(
  url: string,
  pieces: readonly string[],
  headers: Record<string, string> = {},
): Promise<{ status: number | undefined; text: string }> {
  const sent = request(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-06-18",
      ...headers,
    },
  });
  for (const piece of pieces) sent.write(piece);
  sent.end();
  const [response] = await once(sent, "response");
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, text };
}

const large = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"${"x".repeat(300_000)}"}}`;

test.each([
  ["with its length", { "content-length": String(large.length) }],
  ["in chunks", { "transfer-encoding": "chunked" }],
])(
  "a request that is too large %s hears of it, and of the option that would take it",
  async (_, headers) => {
    const { url } = await serve({ sluice: { storage: createMemoryBackend() } });
    const refused = await send(url, [large.slice(0, 200_000), large.slice(200_000)], headers);
    expect(refused.status).toBe(413);
    expect(refused.text).toMatch(/262144 bytes.*maxRequestBodySize/);
  },
);

test("the limit of the handler is that of the adapter, unless it has its own", async () => {
  const options = { sluice: { storage: createMemoryBackend() } };
  const raised = await serve({ ...options, http: { maxRequestBodySize: 2 ** 20 } });
  expect((await send(raised.url, [large])).status).toBe(200);
  const lower = await serve({
    ...options,
    http: { maxRequestBodySize: 2 ** 20 },
    node: { maxRequestBodySize: 2 ** 16 },
  });
  const refused = await send(lower.url, [large]);
  expect(refused.status).toBe(413);
  expect(refused.text).toContain("65536 bytes");
});
