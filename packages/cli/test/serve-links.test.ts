import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runHere, serveHere } from "./run-here.ts";
import { freePort } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const token = "correct-horse-battery-staple";
const host = "files.example.com";
const publicUrl = `https://${host}/mcp`;
let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-links-"));
  await writeFile(join(root, "a.txt"), "text");
});
afterAll(() => rm(root, { recursive: true }));

/** A server behind a proxy that is not there: requests come as the proxy would send them. */
async function serveBehind(args: readonly string[], env: Record<string, string> = {}) {
  const port = await freePort();
  const place = ["--public-url", publicUrl, "--port", String(port)];
  const served = await serveHere(root, [...place, ...args], { env });
  const send = async (path: string, headers: object = {}, body?: string) => {
    const method = body === undefined ? "GET" : "POST";
    const options = { host: "127.0.0.1", port, path, method, agent: false };
    const sent = request({ ...options, headers: { host, ...headers } }).end(body);
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    return { status: response.statusCode, body: await text(response) };
  };
  const call = async (method: string, params: object = {}): Promise<any> => {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      authorization: `Bearer ${token}`,
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...("name" in params ? { "mcp-name": String(params.name) } : {}),
    };
    const message = { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } };
    const { body } = await send("/mcp", headers, JSON.stringify(message));
    return JSON.parse(/^data: ?(\{.*\})$/m.exec(body)?.[1] ?? body).result;
  };
  return { served, send, call };
}

const link = { name: "get_download_link", arguments: { uri: "files://local/a.txt" } };
const namesOf = ({ tools }: { tools: readonly { name: string }[] }) =>
  tools.map(({ name }) => name);

test("the holder of the token of a public address makes links that need none", async () => {
  const { served, send, call } = await serveBehind([], { SLUICE_TOKEN: token });
  const { structuredContent } = await call("tools/call", link);
  const url = new URL(structuredContent.download_url);
  expect([url.origin, url.pathname]).toEqual([
    `https://${host}`,
    expect.stringMatching(/^\/mcp\/d\/[\w-]{32}$/),
  ]);
  expect(await send(url.pathname)).toEqual({ status: 200, body: "text" });
  await served.end();
});

test("a public server without a token has no links: every stranger could make some", async () => {
  const { served, call } = await serveBehind(["--allow-anonymous"]);
  expect(namesOf(await call("tools/list"))).toEqual(["list_files", "read_file", "stat_file"]);
  await served.end();
});

test("links are short with --keys, too", async () => {
  const keys = join(root, "sluice.keys");
  expect((await runHere(["keys", "new", keys])).status).toBe(0);
  const { served, call } = await serveBehind(["--keys", keys], { SLUICE_TOKEN: token });
  const { structuredContent } = await call("tools/call", link);
  expect(new URL(structuredContent.download_url).pathname).toMatch(/^\/mcp\/d\/[\w-]{32}$/);
  await served.end();
});

test("--no-tools leaves the tools out", async () => {
  const { served, call } = await serveBehind(["--no-tools"], { SLUICE_TOKEN: token });
  expect(await call("tools/list")).toBeUndefined();
  await served.end();
});
