import { appendFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  ElicitRequestSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { serveHere } from "./run-here.ts";
import type { Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
let files = "";
let args: readonly string[] = [];
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-sessions-"));
  files = join(root, "files");
  await mkdir(files);
  await mkdir(join(root, "inbox"));
  await writeFile(join(files, "log.txt"), "one\n");
  args = ["--uploads", join(root, "inbox")];
  served = await serveHere(files, args);
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

const uri = "files://local/log.txt";

/** A client of MCP 2025-11-25, and what identifies its session. */
async function connectV1(url: string, capabilities = {}) {
  const client = new ClientV1({ name: "test", version: "1" }, { capabilities });
  const transport = new TransportV1(new URL(url));
  await client.connect(transport);
  return { client, transport };
}

test("a client of MCP 2025-11-25 subscribes in its session, and hears of a change", async () => {
  const { client, transport } = await connectV1(served.url);
  expect(transport.sessionId).toEqual(expect.any(String));
  const updated = new Promise<string>((resolve) => {
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
      resolve(params.uri),
    );
  });
  await client.subscribeResource({ uri });
  const writing = setInterval(() => void appendFile(join(files, "log.txt"), "more\n"), 200);
  expect(await updated).toBe(uri);
  clearInterval(writing);
  await transport.terminateSession();
  await client.close();
});

test("a tool asks the user of such a client in the middle of its call", async () => {
  const { client } = await connectV1(served.url, { elicitation: { url: {} } });
  const asked: string[] = [];
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push(params.message);
    return { action: "decline" };
  });
  const { content } = await client.callTool({ name: "save_file", arguments: {} });
  expect(asked).toEqual([expect.stringContaining("file")]);
  expect(content).toEqual([{ type: "text", text: "The user sent no file." }]);
  await client.close();
});

test("a client of MCP 2026-07-28 has no session", async () => {
  const client = new Client(
    { name: "test", version: "1" },
    { versionNegotiation: { mode: "auto" } },
  );
  const transport = new StreamableHTTPClientTransport(new URL(served.url));
  await client.connect(transport);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toContain("get_download_link");
  expect(transport.sessionId).toBeUndefined();
  await client.close();
});

test("a link of a session opens without anything that the session has", async () => {
  const { client } = await connectV1(served.url);
  const { structuredContent } = await client.callTool({
    name: "get_download_link",
    arguments: { uri },
  });
  const { download_url: url } = structuredContent as { download_url: string };
  expect(await (await fetch(url)).text()).toMatch(/^one\n/);
  await client.close();
});

test("with a token, sessions, tools and links are for its holder; links need none", async () => {
  const token = "correct-horse-battery-staple";
  const guarded = await serveHere(files, [], { env: { SLUICE_TOKEN: token } });
  const client = new ClientV1({ name: "test", version: "1" });
  const headers = { authorization: `Bearer ${token}` };
  const transport = new TransportV1(new URL(guarded.url), { requestInit: { headers } });
  await client.connect(transport);
  const { structuredContent } = await client.callTool({
    name: "get_download_link",
    arguments: { uri },
  });
  const { download_url: url } = structuredContent as { download_url: string };
  expect((await fetch(url)).status).toBe(200);
  const stolen = await fetch(guarded.url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": transport.sessionId!,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 9, method: "tools/list", params: {} }),
  });
  expect(stolen.status).toBe(401);
  await client.close();
  await guarded.end();
});

test("a session with an open stream does not hold the end of the server", async () => {
  const other = await serveHere(files, args);
  const { client } = await connectV1(other.url);
  await client.subscribeResource({ uri });
  const { status, stderr } = await other.end("SIGTERM");
  expect(status).toBe(0);
  expect(stderr).not.toContain("Cut off");
  await client.close();
});

test(
  "the longest idle session ends for a new one at the limit of sessions",
  { tags: "slow" },
  async () => {
    const other = await serveHere(files, args);
    const open = async (): Promise<string> => {
      const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
      const answer = await post(other.url, { id: 1, method: "initialize", params });
      expect(answer.status).toBe(200);
      await answer.text();
      return answer.headers.get("mcp-session-id")!;
    };
    const list = { id: 2, method: "tools/list", params: {} };
    const first = await open();
    expect((await post(other.url, list, first)).status).toBe(200);
    let last = "";
    for (let at = 0; at < 256; at += 16)
      last = (await Promise.all(Array.from({ length: 16 }, open))).at(-1)!;
    expect((await post(other.url, list, first)).status).toBe(404);
    expect((await post(other.url, list, last)).status).toBe(200);
    await other.end();
  },
);

const clientInfo = { name: "raw", version: "1" };

function post(url: string, message: object, session?: string): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(session === undefined ? {} : { "mcp-session-id": session }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", ...message }),
  });
}
