import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler, type HandlerOptions } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, onTestFinished, test } from "vitest";

const url = "http://127.0.0.1:2532/mcp";
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

function handlerOf(parts: Partial<HandlerOptions> = {}) {
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint: url,
    keys: "ephemeral",
    // a page of nothing needs no sign-in
    principal: () => undefined,
    anonymous: true,
    onWarning: () => {},
  });
  const create = () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  const handler = createHandler({ sluice, ...("behind" in parts ? {} : { create }), ...parts });
  onTestFinished(() => handler.close());
  return handler;
}

interface Asking {
  readonly method?: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const get = (accept: string | undefined, init: Asking = {}): Request =>
  new Request(url, {
    ...init,
    headers: { host: "127.0.0.1:2532", ...(accept !== undefined && { accept }), ...init.headers },
  });

test.each([
  ["GET", browser, true],
  ["HEAD", browser, true],
  ["GET", "TEXT/HTML", true],
  ["GET", "application/json, text/html;q=0.5", true],
  ["GET", "text/event-stream", false],
  ["GET", "application/json, text/event-stream", false],
  ["GET", "text/html, text/event-stream", false],
  ["GET", "*/*", false],
  ["GET", "text/htmlx", false],
  ["GET", undefined, false],
  ["DELETE", browser, false],
  ["POST", browser, false],
] as const)("%s with Accept: %s gets a page: %s", async (method, accept, isPage) => {
  const init = { method, ...(method === "POST" && { body: "{}" }) };
  const response = await handlerOf().fetch(get(accept, init));
  expect((response.headers.get("content-type") ?? "").startsWith("text/html")).toBe(isPage);
  await response.body?.cancel();
});

test("the page has the address for clients, no script, and the headers of the other pages", async () => {
  const response = await handlerOf().fetch(get(browser));
  expect(response.status).toBe(200);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "cache-control": "private, no-store",
    "content-security-policy":
      "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  });
  const text = await response.text();
  expect(text).toContain(`<code>${url}</code>`);
  expect(text).not.toMatch(/<script|<a /);
});

test("nothing of a request is in the page, and a foreign Host or Origin gets none", async () => {
  const handler = handlerOf();
  const plain = await (await handler.fetch(get(browser))).text();
  const odd = new Request(`${url}?q=<b>`, { headers: { accept: browser, host: "localhost" } });
  expect(await (await handler.fetch(odd)).text()).toBe(plain);
  for (const [headers, status] of [
    [{ host: "evil.example" }, 421],
    [{ origin: "https://evil.example" }, 403],
  ] as const)
    expect((await handler.fetch(get(browser, { headers }))).status).toBe(status);
});

test.each([
  ["a handler of your own", { behind: { fetch: async () => new Response("rpc") } }],
  ["an app", { behind: "app" }],
] as const)("%s behind gets what is not of a browser", async (_, parts) => {
  const listener = toNodeHandler(handlerOf(parts));
  const server = createServer((request, response) =>
    listener(request, response, () => response.end("rpc")),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const bodyOf = async (accept: string): Promise<string> =>
    (await fetch(at, { headers: { accept } })).text();
  expect(await bodyOf(browser)).toContain("<title>MCP endpoint</title>");
  expect(await bodyOf("text/event-stream")).toBe("rpc");
});
