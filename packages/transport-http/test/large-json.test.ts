import { request, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { serve } from "./serve.ts";

const jsonHeaders = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
  "mcp-protocol-version": "2025-06-18",
};

/** What a server says to a body that comes in these pieces. */
async function send(
  url: string,
  pieces: readonly string[],
  headers: Record<string, string> = {},
): Promise<{ status: number | undefined; text: string }> {
  const sent = request(url, { method: "POST", headers: { ...jsonHeaders, ...headers } });
  // the server may close the connection of what it refused
  sent.on("error", () => {});
  for (const piece of pieces) sent.write(piece);
  sent.end();
  const [response] = await once(sent, "response");
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, text };
}

const ping = (length: number): string =>
  `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"${"x".repeat(length)}"}}`;
const large = ping(2 ** 22);

test("a request that the SDK takes by itself is taken", async () => {
  const { url } = await serve({ sluice: { storage: createMemoryBackend() } });
  expect((await send(url, [ping(300_000)])).status).toBe(200);
  expect((await send(url, [ping(4_000_000)])).status).toBe(200);
});

test.each([
  ["with its length", { "content-length": String(large.length) }],
  ["in chunks", { "transfer-encoding": "chunked" }],
])(
  "a request that is too large %s hears of it, and of the option that would take it",
  async (_, headers) => {
    const { url } = await serve({ sluice: { storage: createMemoryBackend() } });
    const refused = await send(url, [large.slice(0, 200_000), large.slice(200_000)], headers);
    expect(refused.status).toBe(413);
    expect(refused.text).toMatch(/4194304 bytes.*maxRequestBodySize/);
  },
);

test("large requests of all clients have 64 MiB together, and small ones always come through", async () => {
  const { url } = await serve({ sluice: { storage: createMemoryBackend() } });
  const waiting = Array.from({ length: 18 }, () => {
    const sent = request(url, { method: "POST", headers: jsonHeaders });
    sent.on("error", () => {}).on("response", (refused) => void refused.on("error", () => {}));
    sent.write(ping(4_100_000).slice(0, 4_100_000));
    return { sent, response: once(sent, "response") as Promise<[IncomingMessage]> };
  });
  const [first] = await Promise.race(waiting.map(({ response }) => response));
  expect([first.statusCode, first.headers["retry-after"]]).toEqual([503, "1"]);
  expect((await send(url, [ping(200_000)])).status).toBe(200);
  for (const { sent, response } of waiting) {
    response.catch(() => {});
    sent.destroy();
  }
  await expect.poll(async () => (await send(url, [ping(4_000_000)])).status).toBe(200);
});

test("the limit of the handler is that of the adapter, unless it has its own", async () => {
  const options = { sluice: { storage: createMemoryBackend() } };
  const raised = await serve({ ...options, http: { maxRequestBodySize: 2 ** 23 } });
  expect((await send(raised.url, [large])).status).toBe(200);
  const lower = await serve({
    ...options,
    http: { maxRequestBodySize: 2 ** 23 },
    node: { maxRequestBodySize: 2 ** 16 },
  });
  const refused = await send(lower.url, [large]);
  expect(refused.status).toBe(413);
  expect(refused.text).toContain("65536 bytes");
});
