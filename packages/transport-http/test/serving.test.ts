import { once } from "node:events";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { serve, type ServeOptions, type Serving } from "@sluice/transport-http/node";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../../e2e/bed/listen.ts";

const uri = "files://local/a.txt";
const create = (sluice: Sluice) => () =>
  sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));

async function start(
  options: Partial<SluiceOptions> = {},
  serveOptions: ServeOptions = {},
): Promise<Serving & { readonly sluice: Sluice }> {
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const storage = createMemoryBackend({ "a.txt": "hello" });
  const sluice = createSluice({ storage, endpoint, ...options } as SluiceOptions);
  const serving = await serve(sluice, create(sluice), serveOptions);
  onTestFinished(() => void serving.close({ deadlineMs: 0 }));
  return { ...serving, sluice };
}

function call(url: string, method: string, params: object): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream, */*",
      "mcp-protocol-version": "2025-11-25",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
}

const initialize = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "client", version: "1.0.0" },
};

test("a Sluice with a storage alone serves sessions and links on the port of its endpoint", async () => {
  const { url, port, sluice } = await start();
  expect(new URL(url).port).toBe(String(port));
  const opened = await call(url, "initialize", initialize);
  expect([opened.status, opened.headers.has("mcp-session-id")]).toEqual([200, true]);
  await opened.body?.cancel();
  const { url: link } = await sluice.link(uri, { caller: { header: () => undefined } });
  expect(await (await fetch(link)).text()).toBe("hello");
});

test("the port and the address may be others than those of the endpoint", async () => {
  const serving = await start(
    {
      endpoint: "https://files.example.com/mcp",
      keys: "ephemeral",
      anonymous: true,
      onWarning() {},
    },
    { port: 0, hosts: ["127.0.0.1"] },
  );
  expect(serving.url).toBe("https://files.example.com/mcp");
  const there = `http://127.0.0.1:${serving.port}/mcp`;
  const opened = await call(there, "initialize", initialize);
  expect(opened.status).toBe(200);
  await opened.body?.cancel();
});

test("without sessions a client is served for the length of a request", async () => {
  const { url } = await start({}, { sessions: false });
  const opened = await call(url, "initialize", initialize);
  expect([opened.status, opened.headers.has("mcp-session-id")]).toEqual([200, false]);
  await opened.body?.cancel();
});

test("close drains, closes what the Sluice was given once, and is the same for every caller", async () => {
  const closed: string[] = [];
  const storage = {
    ...createMemoryBackend({ "a.txt": "hello" }),
    close: async () => void closed.push("storage"),
  };
  const audit = { sink() {}, close: async () => void closed.push("audit") };
  const serving = await start({ storage, audit });
  await Promise.all([serving.close({ deadlineMs: 100 }), serving.close()]);
  expect(closed).toEqual(["storage", "audit"]);
  await expect(fetch(serving.url)).rejects.toThrow("fetch failed");
});

test("a storage that cannot be closed keeps nothing else open", async () => {
  const closed: string[] = [];
  const storage = {
    ...createMemoryBackend({ "a.txt": "hello" }),
    close: () => Promise.reject(new Error("the storage stays open")),
  };
  const audit = { sink() {}, close: async () => void closed.push("audit") };
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const sluice = createSluice({ storage, endpoint, audit });
  const serving = await serve(sluice, create(sluice));
  await expect(serving.close({ deadlineMs: 100 })).rejects.toThrow("the storage stays open");
  expect(closed).toEqual(["audit"]);
  await expect(fetch(serving.url)).rejects.toThrow("fetch failed");
});

test("a port that is taken rejects, and nothing is left open", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void other.close());
  await once(other, "listening");
  const { port } = other.address() as { port: number };
  await expect(start({}, { port })).rejects.toMatchObject({ code: "EADDRINUSE" });
});

test.each<[string, ServeOptions, RegExp]>([
  ["a typo", { prot: 1 } as ServeOptions, /^serve: there is no option prot; did you mean port\?/],
  ["keep-alive without end", { keepAliveTimeoutMs: 0 }, /keepAliveTimeoutMs is a number/],
  ["no session at all", { sessions: { perProcess: 0 } }, /sessions.perProcess must be/],
])("%s rejects with what to write", async (_, options, message) => {
  await expect(start({}, options)).rejects.toThrow(message);
});

test("a public endpoint does not say which port to listen on", async () => {
  const options = {
    endpoint: "https://files.example.com/mcp",
    keys: "ephemeral",
    anonymous: true,
  } as const;
  await expect(start({ ...options, onWarning() {} })).rejects.toThrow(
    /^serve: pass port, .*https:\/\/files\.example\.com\/mcp, which a proxy/,
  );
});

test("servers of another Sluice are refused before they answer", async () => {
  const other = createSluice({ storage: createMemoryBackend() });
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const sluice = createSluice({ storage: createMemoryBackend(), endpoint, onError });
  const serving = await serve(sluice, create(other), { onError });
  onTestFinished(() => void serving.close({ deadlineMs: 0 }));
  const response = await call(serving.url, "initialize", initialize);
  await response.body?.cancel();
  expect(response.status).toBeGreaterThanOrEqual(500);
  expect(String(errors[0])).toContain("attached to another Sluice");
});
