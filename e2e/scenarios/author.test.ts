import { createServer } from "node:http";
import { createMcpExpressApp } from "@modelcontextprotocol/express";
import { createMcpHandler, McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { generateKey } from "@sluice/core";
import { EXTENSION_ID } from "@sluice/core/internal";
import { createSluice } from "@sluice/server";
import { streamResource } from "@sluice/client";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createStdioServerTransport } from "@sluice/transport-stdio";
import express, { type Express } from "express";
import { createInterface } from "node:readline";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { connect, connectOfficial, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { listen } from "../bed/listen.ts";
import { call } from "../bed/raw.ts";
import { startSite } from "../bed/site.ts";

const content = bytesOf(100_000, "photo");
const uri = "files://site/photo.jpg";
const files = { "photo.jpg": content, "notes.txt": "plain notes" };

function author(mcp: McpServer): void {
  mcp.registerResource("config", "app://config", { mimeType: "text/plain" }, () => ({
    contents: [{ uri: "app://config", mimeType: "text/plain", text: "mine" }],
  }));
  mcp.registerResource(
    "user",
    new ResourceTemplate("app://users/{id}", { list: undefined }),
    {},
    (url, { id }) => ({ contents: [{ uri: url.href, text: `user ${String(id)}` }] }),
  );
  mcp.registerTool("echo", { description: "Echoes" }, () => ({
    content: [{ type: "text", text: "echo" }],
  }));
}

describe.each(sdkNames)("%s, with resources of the author's own on the same server", (sdk) => {
  test("both are listed and read [SEP-2532/5.read/must-keep-read] [SEP-2532/compatibility/must-keep-read]", async () => {
    await using site = await startSite({ files, author });
    const client = await connectOfficial(sdk, site.url);
    const { resources } = await client.listResources();
    expect(resources.map((resource) => resource.uri).toSorted()).toEqual([
      "app://config",
      "files://site/notes.txt",
      uri,
    ]);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates).toHaveLength(2);
    const text = async (of: string) => (await client.readResource({ uri: of })).contents;
    expect(await text("app://config")).toMatchObject([{ text: "mine" }]);
    expect(await text("app://users/7")).toMatchObject([{ text: "user 7" }]);
    expect(await text("files://site/notes.txt")).toMatchObject([{ text: "plain notes" }]);
    expect(await text(uri)).toMatchObject([{ blob: content.toString("base64") }]);
    await expect(client.readResource({ uri: "files://site/none" })).rejects.toThrow(/not found/i);
    expect(await client.callTool({ name: "echo", arguments: {} })).toMatchObject({
      content: [{ text: "echo" }],
    });
    await client.close();
  });

  test("one client reads and streams the same resource [SEP-2532/5.read/may-use-either]", async () => {
    await using site = await startSite({ files, author });
    const client = await connect(sdk, site.url);
    const { contents } = await client.readResource({ uri });
    const stream = await streamResource(client, uri);
    const streamed = await buffer(stream.body as never);
    expect(contents).toMatchObject([{ blob: streamed.toString("base64") }]);
    expect(streamed.equals(content)).toBe(true);
    await client.close();
  });
});

test("a resource of the author's cannot be streamed around its handler", async () => {
  await using site = await startSite({
    files,
    author: (mcp) =>
      mcp.registerResource("guarded", uri, {}, () => ({
        contents: [{ uri, text: "what the author says" }],
      })),
  });
  const { message, headers } = await call(site.url, "resources/stream", { uri }, { streaming: {} });
  expect(headers).not.toHaveProperty("mcp-resource-uri");
  expect(message?.error?.data?.reason).toBe("stream_unsupported");
});

test("above maxReadBytes reading says so, and streaming goes on [SEP-2532/5.read/must-keep-read] [SEP-2532/compatibility/must-keep-read]", async () => {
  await using site = await startSite({ files, sluice: { maxReadBytes: 99_999 } });
  const { message } = await call(
    site.url,
    "resources/read",
    { uri },
    { headers: { "mcp-name": uri } },
  );
  expect(message?.error?.data?.reason).toBe("too_large");
  const streamed = await call(site.url, "resources/stream", { uri }, { streaming: {} });
  expect(streamed.bytes.equals(content)).toBe(true);
});

/** A server over two pipes, as authors start one. */
const pipes: Readonly<
  Record<string, (make: () => McpServer, input: Readable, output: Writable) => unknown>
> = {
  "the SDK's transport": (make, input, output) =>
    make().connect(new StdioServerTransport(input, output)),
  "the SDK's serveStdio": (make, input, output) =>
    serveStdio(make, { transport: new StdioServerTransport(input, output) }),
  "serveStdio with our transport": (make, stdin, stdout) =>
    serveStdio(make, { transport: createStdioServerTransport({ stdin, stdout }) }),
};

/** What a server is asked in either revision, first what it declares. */
const asked = {
  session: (ask: Ask) =>
    ask("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: { extensions: { [EXTENSION_ID]: {} } },
      clientInfo: { name: "raw", version: "1" },
    }),
  stateless: (ask: Ask) => ask("server/discover"),
} as const;
type Ask = (method: string, params?: object) => Promise<Record<string, any>>;

describe.each(Object.keys(pipes))("over stdio, with %s", (name) => {
  test.each(Object.keys(asked).filter((era) => era === "session" || name.includes("serveStdio")))(
    "an attached server declares no stream capability and marks nothing, unasked (%s revision) [SEP-2532/4.stdio/should-not-declare]",
    async (era) => {
      const sluice = createSluice({
        storage: createMemoryBackend({ "a.txt": "x" }),
        baseUri: "files://site/",
        endpoint: "http://127.0.0.1:3000/mcp",
        keys: [generateKey()],
      });
      const make = (): McpServer => {
        const mcp = sluice.attach(new McpServer({ name: "pipe", version: "1.0.0" }));
        mcp.registerTool("link", {}, async (ctx) => ({
          content: await sluice.resourceLink("files://site/a.txt", { mcp, ctx }),
        }));
        return mcp;
      };
      const [input, output] = [new PassThrough(), new PassThrough()];
      await pipes[name]!(make, input, output);
      const lines = createInterface({ input: output })[Symbol.asyncIterator]();
      const said: string[] = [];
      const _meta = era === "stateless" && {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": { extensions: { [EXTENSION_ID]: {} } },
      };
      const ask: Ask = async (method, params = {}) => {
        const message = { jsonrpc: "2.0", id: said.length, method };
        input.write(
          `${JSON.stringify({ ...message, params: { ...params, ...(_meta && { _meta }) } })}\n`,
        );
        const { value } = await lines.next();
        said.push(value as string);
        return JSON.parse(value as string) as Record<string, any>;
      };
      const declared = await asked[era as keyof typeof asked](ask);
      expect(declared["result"].capabilities.resources).toMatchObject({ listChanged: true });
      expect((await ask("resources/list"))["result"].resources).toHaveLength(1);
      expect((await ask("resources/templates/list"))["result"].resourceTemplates).toHaveLength(1);
      const { result } = await ask("tools/call", { name: "link", arguments: {} });
      expect(result.content[0].type).toBe("resource_link");
      expect(declared["result"].capabilities.resources).not.toHaveProperty("stream");
      expect(said[0]).not.toContain(EXTENSION_ID);
      expect(said.join()).not.toContain('"streamable"');
      const { error } = await ask("resources/stream", { uri: "files://site/a.txt" });
      expect(error.code).toBe(-32601);
      input.end();
    },
  );
});

describe("mounted in Express", () => {
  test.each(["with a body parser", "bare"])("%s", async (kind) => {
    const app: Express = kind === "bare" ? express() : createMcpExpressApp();
    const server = createServer(app);
    const listening = await listen(server);
    const endpoint = `${listening.origin}/mcp`;
    const storage = createMemoryBackend();
    storage.put("photo.jpg", content);
    const sluice = createSluice({
      storage,
      baseUri: "files://site/",
      endpoint,
      keys: [generateKey()],
    });
    const mcp = createMcpHandler(() =>
      sluice.attach(new McpServer({ name: "express", version: "1.0.0" })),
    );
    app.use("/mcp", toNodeHandler(withSluice(mcp, sluice)));
    app.get("/other", (_request, response) => void response.send("mine"));

    for (const prefer of ["direct", "downloadUrl"] as const) {
      const client = await connect("SDK v2, modern", endpoint);
      const stream = await streamResource(client, uri, { prefer: [prefer] });
      expect(stream.mode).toBe(prefer);
      expect((await buffer(stream.body as never)).equals(content)).toBe(true);
      await client.close();
    }
    expect(await (await fetch(`${listening.origin}/other`)).text()).toBe("mine");
    await listening.close();
  });
});
