import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport as InMemoryTransportV1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpServer } from "@modelcontextprotocol/server";
import type { RevisionKind } from "@sluice/core/internal";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Uploads } from "../src/index.ts";
import { appScript, appStyle, script, style } from "../src/page/browser-files.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import { startUploadServer, type UploadServer } from "./upload-server.ts";

const appUri = "ui://sluice/upload";
const withApps = {
  extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } },
};
const fields = { report: { type: "file", maxBytes: 1_000 } } as const;

/** A tool that asks, with a `_meta` of its author, and those for models. */
function register(mcp: McpServer, uploads: Uploads): void {
  const config = { message: "Which report?", fields, _meta: { author: 1 } };
  uploads.registerTool(mcp, "measure", config, ({ files }) => `${files.report.size} bytes`);
  uploads.attach(mcp);
}

/** A client of such a server, and the response of each request as it came. */
async function connect(
  server: UploadServer,
  { era, capabilities }: { era: RevisionKind; capabilities: object },
) {
  const bodies: string[] = [];
  const serve = createToolServer(
    server.sluice,
    async () => ({ content: [] }),
    (mcp) => register(mcp, server.uploads),
  );
  const client = await connectAnswerer({
    era,
    token: "alice",
    capabilities,
    async fetch(input, init) {
      const response = await serve(input, init);
      if (init?.method === "POST") bodies.push(await response.clone().text());
      return response;
    },
  });
  return { client, lastBody: () => bodies.at(-1)! };
}

/** The App's page and the page in a tab of a tool that asked. */
async function ask(client: Client, name = "measure") {
  const result = await client.callTool({ name, arguments: {} });
  const { app } = (result._meta?.["dev.sluice/uploads"] ?? {}) as {
    app: { url: string; message: string };
  };
  const data = result.structuredContent as Record<string, string>;
  return { ...app, result, data, pageUrl: data["page_url"]!, uploadUrl: data["upload_url"]! };
}

describe.each(eras)("%s", (era) => {
  test.each([
    ["nothing", {}],
    [
      "an extension of the same name without the type",
      {
        extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html"] } },
      },
    ],
  ])(
    "a host that declares %s gets lists and results without a byte of an App",
    async (_what, capabilities) => {
      const server = await startUploadServer();
      const { client, lastBody } = await connect(server, { era, capabilities });
      const { tools } = await client.listTools();
      expect(lastBody()).not.toMatch(/ui:\/\/|"ui"|ui\/resourceUri/);
      expect(tools.map(({ name, _meta }) => [name, _meta])).toEqual([
        ["look", undefined],
        ["measure", { author: 1 }],
        ["request_upload", undefined],
        ["check_upload", undefined],
      ]);
      // the same bytes as of tools that never had an App
      const plain = (json: string) => json.replace(/"id":\d+/, "");
      const listed = plain(lastBody());
      const shown = await connect(server, { era, capabilities: withApps });
      await shown.client.listTools();
      const meta = `"ui":{"resourceUri":"${appUri}"},"ui/resourceUri":"${appUri}"`;
      const withoutMeta = plain(shown.lastBody())
        .replaceAll(`,"_meta":{${meta}}`, "")
        .replaceAll(`,${meta}`, "");
      expect(plain(shown.lastBody())).not.toBe(listed);
      expect(withoutMeta).toBe(listed);

      await client.listResources();
      expect(lastBody()).not.toContain("ui://");
      await client.listResourceTemplates();
      expect(lastBody()).not.toContain("ui://");
      for (const name of ["measure", "request_upload"]) {
        const { result } = await ask(client, name);
        expect(result._meta?.["dev.sluice/uploads"]).toBeUndefined();
        expect(JSON.stringify(result)).not.toContain("upload-page/app");
      }
    },
  );

  test("a host with Apps is told the App of each tool that asks, in the nested and the flat form", async () => {
    const { client } = await connect(await startUploadServer(), { era, capabilities: withApps });
    const { tools } = await client.listTools();
    const meta = { ui: { resourceUri: appUri }, "ui/resourceUri": appUri };
    expect(tools.map(({ name, _meta }) => [name, _meta])).toEqual([
      ["look", undefined],
      ["measure", { author: 1, ...meta }],
      ["request_upload", meta],
      ["check_upload", undefined],
    ]);
    const { resources } = await client.listResources();
    expect(resources).toEqual([]);
  });

  test("the App is one document that connects only to the endpoint", async () => {
    const server = await startUploadServer();
    const { client } = await connect(server, { era, capabilities: withApps });
    const { contents } = await client.readResource({ uri: appUri });
    const { origin } = new URL(server.url);
    const ui = { csp: { connectDomains: [origin] }, prefersBorder: true };
    expect(contents).toMatchObject([
      { uri: appUri, mimeType: "text/html;profile=mcp-app", _meta: { ui } },
    ]);
    const { text } = contents[0] as { text: string };
    const hash = (source: string) => createHash("sha256").update(source).digest("base64");
    const policy = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(text)?.[1];
    expect(policy?.replaceAll("&#39;", "'")).toBe(
      `default-src 'none'; script-src 'sha256-${hash(appScript)}'; style-src 'sha256-${hash(appStyle)}'; connect-src ${origin}; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'`,
    );
    const elsewhere = [...text.matchAll(/https?:\/\/[^\s"'`<]+/g)].map(([url]) => url);
    expect(elsewhere.filter((url) => !url.startsWith(origin))).toEqual([]);
    expect(text.match(/<script|<style|<\/script|<\/style/g)).toHaveLength(4);
  });

  test("a host with Apps is asked in the App, by a URL that only the host gets", async () => {
    const server = await startUploadServer();
    const { client } = await connect(server, { era, capabilities: withApps });
    const { result, url, message, data } = await ask(client);
    expect(data["status"]).toBe("upload_required");
    expect(message).toBe(
      `I have sent the files. Please call the tool again with the same arguments and upload_id "${data["upload_id"]}".`,
    );
    expect(url.startsWith(`${server.url}/upload-page/app/`)).toBe(true);
    // a model gets the content, and in some hosts the data
    expect(JSON.stringify([result.content, data])).not.toContain("/upload-page/app/");
  });

  test("a host with Apps that opens pages itself gets no App", async () => {
    const capabilities = { ...withApps, elicitation: { url: {} } };
    const { client, lastBody } = await connect(await startUploadServer(), { era, capabilities });
    await client.listTools();
    expect(lastBody()).not.toMatch(/ui:\/\/|"ui"|ui\/resourceUri/);
    const { result } = await ask(client, "request_upload");
    expect(JSON.stringify(result)).not.toContain("upload-page/app");
  });

  test("the tool goes on with the files of an answer that the App gave", async () => {
    const server = await startUploadServer();
    const { client } = await connect(server, { era, capabilities: withApps });
    const { url, uploadUrl, data } = await ask(client);
    const headers = { "content-type": "text/plain", origin: "null" };
    const sent = await fetch(`${uploadUrl}a.txt`, { method: "PUT", headers, body: "a report" });
    expect(sent.status).toBe(201);
    const file = { name: "a.txt", size: 8, mimeType: "text/plain", uploadId: data["upload_id"] };
    const answer = { answerId: "0123456789abcdef", action: "accept", content: { report: file } };
    const given = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", origin: "null" },
      body: JSON.stringify(answer),
    });
    expect(given.status).toBe(204);
    const args = { upload_id: data["upload_id"] };
    const result = await client.callTool({ name: "measure", arguments: args });
    expect(result.content).toEqual([{ type: "text", text: "8 bytes" }]);
    const status = await fetch(url, { headers: { accept: "application/json", origin: "null" } });
    expect(await status.json()).toMatchObject({ phase: "accepted" });
  });
});

const origins = ["null", "https://0123.claudemcpcontent.com", "https://evil.example"];

test("a page of any origin may use the URL of an App's page, without credentials, and no other URL", async () => {
  const server = await startUploadServer({ sluice: { links: { tokens: "sealed" } } });
  const { client } = await connect(server, { era: "legacy", capabilities: withApps });
  const { url, pageUrl } = await ask(client);
  const answer = { method: "POST", body: "{}" };
  for (const origin of origins) {
    const headers = { origin, "content-type": "application/json" };
    const corsOf = ({ headers: given }: Response) => [
      given.get("access-control-allow-origin"),
      given.get("access-control-allow-credentials"),
    ];
    const preflight = await fetch(url, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST" },
    });
    expect([preflight.status, ...corsOf(preflight)]).toEqual([204, "*", null]);
    for (const accept of ["text/html", "application/json"]) {
      const read = await fetch(url, { headers: { origin, accept } });
      expect([read.status, ...corsOf(read)]).toEqual([200, "*", null]);
    }
    // malformed, and so not refused for where it comes from
    expect((await fetch(url, { ...answer, headers })).status).toBe(400);
    for (const other of [pageUrl, server.url, `${server.url}/upload-page/`]) {
      const read = await fetch(other, { headers: { origin } });
      expect([read.status, ...corsOf(read)]).toEqual([403, null, null]);
      expect((await fetch(other, { ...answer, headers })).status).toBe(403);
    }
  }
});

test("the token of an App's page opens no page in a tab, nor the other way round", async () => {
  const server = await startUploadServer({ sluice: { links: { tokens: "sealed" } } });
  const { client } = await connect(server, { era: "legacy", capabilities: withApps });
  const { url, pageUrl } = await ask(client);
  const token = (of: string) => of.slice(of.lastIndexOf("/") + 1);
  expect((await fetch(url)).status).toBe(200);
  expect((await fetch(pageUrl)).status).toBe(200);
  expect((await fetch(`${server.url}/upload-page/${token(url)}`)).status).toBe(404);
  expect((await fetch(`${server.url}/upload-page/app/${token(pageUrl)}`)).status).toBe(404);
});

test("Claude is told the sandbox that it derives from the URL of the server, and no other host is", async () => {
  const endpoint = "https://files.example/mcp";
  const server = await startUploadServer({ sluice: { endpoint } });
  const hash = createHash("sha256").update(endpoint).digest("hex").slice(0, 32);
  const domains: unknown[] = [];
  for (const name of ["claude-ai", "Claude", "chatgpt", "notclaude"]) {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    register(mcp, server.uploads);
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name, version: "1.0.0" }, { capabilities: withApps });
    onTestFinished(() => client.close());
    await Promise.all([server.sluice.attach(mcp).connect(ours), client.connect(theirs)]);
    const { contents } = await client.readResource({ uri: appUri });
    domains.push((contents[0]!._meta as { ui: { domain?: string } }).ui.domain);
  }
  const domain = `${hash}.claudemcpcontent.com`;
  expect(domains).toEqual([domain, domain, undefined, undefined]);
});

test("an App is served whether its tools come before the Sluice is attached or after", async () => {
  const { sluice, uploads } = await startUploadServer({ sluice: { anonymous: true } });
  for (const isFirst of [true, false]) {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    if (isFirst) register(mcp, uploads);
    sluice.attach(mcp);
    if (!isFirst) register(mcp, uploads);
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name: "test", version: "1.0.0" }, { capabilities: withApps });
    onTestFinished(() => client.close());
    await Promise.all([mcp.connect(ours), client.connect(theirs)]);
    expect((await client.readResource({ uri: appUri })).contents).toHaveLength(1);
    expect((await client.listResources()).resources).toEqual([]);
  }
});

test("with SDK v1 tools ask as they do in hosts without Apps", async () => {
  const { sluice, uploads } = await startUploadServer({ sluice: { anonymous: true } });
  const mcp = uploads.attach(new McpServerV1({ name: "test", version: "1.0.0" }));
  const [ours, theirs] = InMemoryTransportV1.createLinkedPair();
  const client = new ClientV1({ name: "test", version: "1.0.0" }, { capabilities: withApps });
  onTestFinished(() => client.close());
  await Promise.all([sluice.attach(mcp).connect(ours), client.connect(theirs)]);
  const { tools } = await client.listTools();
  expect(tools.map(({ _meta }) => _meta)).toEqual([undefined, undefined]);
  const result = await client.callTool({ name: "request_upload", arguments: {} });
  expect(result._meta).toBeUndefined();
});

test("the upload page and its App have at most 30 KiB together, with gzip", () => {
  const bytes = [script, style, appScript, appStyle].map((text) => gzipSync(text).length);
  expect(bytes.reduce((sum, each) => sum + each)).toBeLessThanOrEqual(30 * 1024);
});
