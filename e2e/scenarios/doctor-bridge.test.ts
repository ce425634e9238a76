// A transfer of the bridge that fails, and what a proxy in front of the server does wrong: the tool's answer names it.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { createHttpUpstream, openFileTools, runBridge } from "@sluice/bridge";
import { expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { startFaultyProxy, type Faults } from "../bed/faulty-proxy.ts";
import { listen } from "../bed/listen.ts";
import { hasNginx, startNginx } from "../bed/nginx.ts";
import { baseUri, startSite, type SiteOptions } from "../bed/site.ts";

vi.setConfig({ testTimeout: 60_000 });

const files = { "a.bin": "0123456789".repeat(20_000) };

async function startBehind(faults: Faults, options: SiteOptions = {}) {
  const front = (target: () => number) => startFaultyProxy(target, faults);
  const site = await startSite({ files, front, ...options });
  onTestFinished(() => site[Symbol.asyncDispose]());
  return site;
}

/** Calls a tool of a bridge to the server at `url`; gives the words of its answer. */
async function callTool(url: URL, name: string, args: Record<string, unknown>): Promise<string> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "sluice-doctor-bridge-")));
  writeFileSync(join(root, "my.bin"), Buffer.alloc(1_500_000));
  const server = { kind: "http", name: url.origin, url } as const;
  const tools = await openFileTools({ server, saveTo: root, sendFrom: [root], agreedBytes: 1e9 });
  const upstream = createHttpUpstream({
    endpoint: url,
    token: "right",
    wrapFetch: tools.wrapFetch,
  });
  const [host, transport] = InMemoryTransport.createLinkedPair();
  const ended = runBridge({ host, upstream: tools.watch(upstream), hooks: tools.hooks });
  const client = new Client({ name: "host", version: "1" });
  onTestFinished(async () => {
    await client.close();
    await ended.catch(() => {});
    await tools.close();
    rmSync(root, { recursive: true });
  });
  await client.connect(transport);
  const result = await client.callTool({ name, arguments: args }, { timeout: 50_000 });
  expect(result.isError).toBe(true);
  return result.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

const uri = `${baseUri}a.bin`;
const isBytes = (answer: IncomingMessage): boolean => "mcp-resource-uri" in answer.headers;

/** Passes on an answer that says it is packed, and is not. */
function sendPacked(answer: IncomingMessage, response: ServerResponse): void {
  answer.resume();
  const { "content-length": _, ...headers } = answer.headers;
  response.writeHead(200, { ...headers, "content-encoding": "gzip" }).end("not the bytes");
}

test("bytes that a proxy packs are why a save fails", async () => {
  const tokens: unknown[] = [];
  const { url } = await startBehind({
    headers: ({ authorization }) => void tokens.push(authorization),
    passOn(answer, response) {
      if (!isBytes(answer)) return false;
      sendPacked(answer, response);
      return true;
    },
  });
  const said = await callTool(new URL(url), "save_resource", { uri });
  expect(said).toMatch(
    /; probable cause: The bytes arrive packed \(Content-Encoding: gzip\).*: turn compression off/,
  );
  // of the bridge, and of the diagnosis
  expect(new Set(tokens)).toEqual(new Set(["Bearer right"]));
});

test("a refused address and a refused path are no matter of the network", async () => {
  const methods: unknown[] = [];
  const { url } = await startBehind({
    headers: (headers) => void methods.push(headers["mcp-method"]),
  });
  for (const args of [{ uri: "http://10.0.0.1/a" }, { uri, path: "../a" }])
    expect(await callTool(new URL(url), "save_resource", args)).not.toContain("probable cause");
  // a diagnosis begins with it, and this host does not
  expect(methods).not.toContain("server/discover");
});

test("a diagnosis asks no address that the server names beside its own", async () => {
  let asked = 0;
  const inner = await listen(
    createServer((_request, response) => {
      asked += 1;
      response.end();
    }),
  );
  onTestFinished(() => inner.close());
  // a fault of the network comes first, so that a diagnosis runs
  let hasBroken = false;
  const { url } = await startBehind({
    async passOn(answer, response) {
      if (isBytes(answer) && !hasBroken) {
        hasBroken = true;
        sendPacked(answer, response);
        return true;
      }
      if (!hasBroken || !/json/.test(answer.headers["content-type"] ?? "")) return false;
      const body = (await buffer(answer))
        .toString()
        .replace(/"downloadUrl":"http:\/\/[^/]+/, `"downloadUrl":"${inner.origin}`);
      const { "content-length": _, ...headers } = answer.headers;
      response.writeHead(answer.statusCode ?? 502, headers).end(body);
      return true;
    },
    answer(request, response) {
      if (!hasBroken || !request.url?.startsWith("/mcp/streams/")) return false;
      response.writeHead(302, { location: `${inner.origin}/latest/meta-data` }).end();
      return true;
    },
  });
  const said = await callTool(new URL(url), "save_resource", { uri });
  expect(said).toContain("probable cause: ");
  expect(asked).toBe(0);
});

test.skipIf(!hasNginx)("a limit of nginx for requests is why a file does not arrive", async () => {
  const site = await startSite({
    files,
    author: (mcp) =>
      mcp.registerTool("keep", { inputSchema: z.object({ file: z.base64() }) }, () => ({
        content: [],
      })),
    front: (target) =>
      startNginx(
        (port) =>
          `server { listen 127.0.0.1:${port}; client_max_body_size 100k; location / {
             proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:${target()}; } }`,
      ),
  });
  onTestFinished(() => site[Symbol.asyncDispose]());
  const args = { path: "my.bin", tool: "keep", argument: "file" };
  const said = await callTool(new URL(site.url), "send_file", args);
  expect(said).toMatch(/; probable cause: Requests of \d+ KiB are refused \(413\)/);
});
