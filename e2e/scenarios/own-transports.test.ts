// @module-tag slow
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request as send, type RequestListener } from "node:http";
import { connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { Server as LowServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport as TransportV1 } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  ListResourcesRequestSchema,
  ReadResourceRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { Server as LowServerV2 } from "@modelcontextprotocol/server";
import { streamResource } from "@sluice/client";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler } from "@sluice/transport-http";
import { createFrontHandler } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect, sdkNames, type SdkName } from "../bed/clients.ts";
import { listen } from "../bed/listen.ts";
import {
  authenticate,
  kindNames,
  openOwnSite,
  principal,
  type OwnSite,
} from "../bed/own-transports.ts";
import { connectSender } from "../bed/senders.ts";

const bytes = Buffer.alloc(300_000, "0123456789");
const uri = "files://own/a.bin";
const legacy: SdkName[] = sdkNames.filter((name) => name !== "SDK v2, modern");

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The JSON-RPC message in it. */
  readonly message: any;
}

async function ask(
  site: Pick<OwnSite, "url">,
  body: object | undefined,
  headers: Record<string, string> = {},
  method = "POST",
): Promise<Answer> {
  const response = await fetch(site.url, {
    method,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
    ...(body && { body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...body }) }),
    redirect: "manual",
  });
  const text = await response.text();
  const json = /^data: ?(\{.*\})$/m.exec(text)?.[1] ?? (text.startsWith("{") ? text : "{}");
  return { status: response.status, headers: response.headers, text, message: JSON.parse(json) };
}

const initialize = (capabilities: object = {}): object => ({
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities,
    clientInfo: { name: "raw", version: "1" },
  },
});

/** Opens a session by hand; gives the headers of its requests. */
async function open(
  site: Pick<OwnSite, "url">,
  headers: Record<string, string> = {},
  capabilities: object = {},
): Promise<Record<string, string>> {
  const opened = await ask(site, initialize(capabilities), headers);
  return { ...headers, "mcp-session-id": opened.headers.get("mcp-session-id")! };
}

describe.each(kindNames)("a %s behind the routes of an Express app", (kind) => {
  test.each(legacy)("lists, reads and streams to %s directly and by URL", async (sdk) => {
    const storage = createMemoryBackend({ "a.bin": bytes, "a.txt": "hello" });
    for (const delivery of ["direct", "downloadUrl"] as const) {
      await using site = await openOwnSite({ kind, storage, sluice: { delivery } });
      const client = await connect(sdk, site.url);
      const { resources } = await client.listResources();
      expect(resources.map((each) => each.uri)).toEqual([uri, "files://own/a.txt"]);
      const { contents } = await client.readResource({ uri: "files://own/a.txt" });
      expect(contents).toMatchObject([{ text: "hello" }]);
      const { resourceTemplates } = await client.listResourceTemplates();
      expect(resourceTemplates).toMatchObject([{ uriTemplate: "files://own/{+key}" }]);
      const ref = { type: "ref/resource", uri: "files://own/{+key}" } as const;
      const argument = { name: "key", value: "a.t" };
      const { completion } = await client.complete({ ref, argument });
      expect(completion.values).toEqual(["a.txt"]);
      const stream = await streamResource(client, uri);
      expect(stream.mode).toBe(delivery);
      expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);
      await expect(streamResource(client, "files://own/none")).rejects.toMatchObject({
        code: "not_found",
      });
      await expect(client.readResource({ uri: "files://own/none" })).rejects.toThrow(/not found/i);
      await client.close();
      expect(site.errors).toEqual([]);
    }
  });

  test.each([false, true])(
    "answers with a redirect, JSON responses %s",
    async (enableJsonResponse) => {
      const memory = createMemoryBackend({ "a.bin": bytes });
      const url = "https://bucket.example/a.bin?signature=1";
      const presign = async () => ({ url, expiresAt: Date.now() + 60_000 });
      const storage = { ...memory, presign };
      await using site = await openOwnSite({
        kind,
        storage,
        settings: { enableJsonResponse },
        sluice: { delivery: "redirect", redirectOrigins: ["https://bucket.example"] },
      });
      const session = await open(site, {}, { resourceStreaming: {} });
      const answer = await ask(site, { method: "resources/stream", params: { uri } }, session);
      expect([answer.status, answer.headers.get("location"), answer.text]).toEqual([302, url, ""]);
      expect(answer.headers.get("mcp-resource-uri")).toBe(uri);
    },
  );

  test("streams to a client of one request without a session, which declares it there", async () => {
    await using site = await openOwnSite({
      kind,
      isStateless: true,
      storage: createMemoryBackend({ "a.bin": bytes }),
    });
    const _meta = { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } };
    const call = { method: "resources/stream", params: { uri, _meta } };
    const { status, headers, text } = await ask(site, call);
    expect([status, headers.get("content-length"), text.length]).toEqual([200, "300000", 300_000]);
    expect((await ask(site, { method: "resources/list" })).message.result.resources).toHaveLength(
      1,
    );
  });

  test("hears of changes within its session", async () => {
    const storage = createMemoryBackend({ "a.bin": "1" });
    await using site = await openOwnSite({ kind, storage });
    const client = await connect("SDK v1", site.url);
    const told: string[] = [];
    client.fallbackNotificationHandler = async ({ method }) => void told.push(method);
    await client.listResources();
    await client.subscribeResource({ uri });
    let version = 1;
    await expect
      .poll(() => {
        storage.put("a.bin", `${(version += 1)}`);
        storage.put(`new-${version}.bin`, "1");
        return new Set(told);
      })
      .toEqual(
        new Set(["notifications/resources/updated", "notifications/resources/list_changed"]),
      );
    await client.close();
  });

  test("a session is used, heard and ended by the principal that opened it alone", async () => {
    await using site = await openOwnSite({ kind, sluice: { principal }, node: { authenticate } });
    const anns = await open(site, { authorization: "Bearer ann" });
    const id = anns["mcp-session-id"]!;
    const list = { method: "resources/list" };
    for (const headers of [{ authorization: "Bearer bob" }, {}] as Record<string, string>[]) {
      const foreign = { ...headers, "mcp-session-id": id };
      expect((await ask(site, list, foreign)).status).toBe(404);
      expect((await ask(site, undefined, foreign, "GET")).status).toBe(404);
      expect((await ask(site, undefined, foreign, "DELETE")).status).toBe(404);
      const answer = { result: { action: "accept" } };
      expect((await ask(site, answer, foreign)).status).toBe(404);
    }
    expect(site.sessions()).toBe(1);
    expect((await ask(site, list, anns)).message.result.resources).toHaveLength(1);
    expect((await ask(site, undefined, anns, "DELETE")).status).toBe(200);
    expect(site.sessions()).toBe(0);
    expect((await ask(site, list, anns)).status).toBe(404);
    expect((await ask(site, list, { ...anns, "mcp-session-id": "made-up" })).status).toBe(404);
  });

  test("a bearer verified behind it is refused with what to do", async () => {
    await using site = await openOwnSite({
      kind,
      sluice: { principal },
      mount(app, handler) {
        app.use(toNodeHandler(handler, { onError: (error) => void heard.push(error) }));
        app.use((req, res, next) => void authenticate(req, res, next, {} as never));
      },
    });
    const opened = await ask(site, initialize(), { authorization: "Bearer ann" });
    expect([opened.status, opened.headers.get("mcp-session-id")]).toEqual([500, null]);
    expect(String(heard)).toMatch(/pass the middleware to toNodeHandler as `authenticate`/);
  });
  const heard: unknown[] = [];
});

describe.each(kindNames.filter((name) => name !== "low-level Server of SDK v1"))(
  "tools of a %s behind the routes of an Express app",
  (kind) => {
    test("gives models a tool to read with, and tools their links", async () => {
      await using site = await openOwnSite({
        kind,
        attach: { tools: { read: "read_file", list: false, link: false } },
        register: (mcp, sluice) =>
          void mcp.registerTool("link", {}, async (ctx: any) => ({
            content: (await sluice.resourceLink("files://own/a.txt", { mcp, ctx })) as never,
          })),
      });
      const client = await connect("SDK v1", site.url);
      const read = await client.callTool({
        name: "read_file",
        arguments: { uri: "files://own/a.txt" },
      });
      expect(read.content).toMatchObject([
        { text: "hello" },
        { text: expect.stringContaining("5") },
      ]);
      const linked = await client.callTool({ name: "link" });
      expect(linked.content).toMatchObject([{ type: "resource_link" }, { text: "hello" }]);
      await client.close();
    });

    test("asks for files, which come over its endpoint", async () => {
      const storage = createMemoryBackend();
      const folder = await mkdtemp(join(tmpdir(), "sluice-own-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const file = join(folder, "note.txt");
      await writeFile(file, "x".repeat(2_000));
      let stop: (() => Promise<void>) | undefined;
      let uploads: ReturnType<typeof createUploads> | undefined;
      onTestFinished(() => stop?.());
      await using site = await openOwnSite({
        kind,
        mount(app, handler, sluice) {
          const made = createUploads(sluice, { storage, scan: "none" });
          uploads = made;
          stop = () => made.close();
          app.use(toNodeHandler(withUploads(handler, made)));
        },
        register: (mcp) =>
          void mcp.registerTool("count", {}, async (ctx: any) => {
            const outcome = await uploads!.ask(
              {
                message: "Which?",
                fields: { text: { type: "file", accept: ["text/*"] } },
              },
              { mcp, ctx },
            );
            const size = outcome.action === "accept" ? outcome.files.text.size : outcome.action;
            return { content: [{ type: "text", text: String(size) }] };
          }),
      });
      for (const sdk of legacy) {
        const client = await connectSender(sdk, site.url, {
          onFilesRequested: ({ fields }) => ({
            action: "accept",
            files: { [fields[0]!.name]: [file] },
          }),
        });
        const { content } = await client.callTool({ name: "count" });
        expect(content).toEqual([{ type: "text", text: "2000" }]);
        await client.close();
      }
    });
  },
);

describe("the routes before an app's own", () => {
  const kind = "McpServer of SDK v1";

  test("leave the app's other paths alone, and no other spelling of the endpoint", async () => {
    await using site = await openOwnSite({ kind });
    const { origin, port } = new URL(site.url);
    expect(await (await fetch(`${origin}/health`)).json()).toEqual({ status: "ok" });
    expect(await (await fetch(`${origin}/nothing`)).text()).toContain("Cannot GET /nothing");
    const say = JSON.stringify({ jsonrpc: "2.0", id: 1, ...initialize() });
    for (const target of [
      "/MCP",
      "/mcp/",
      "/mcp//",
      "//mcp",
      `${origin}/mcp`,
      "/%6dcp",
      "/x/../mcp",
    ]) {
      const text = await new Promise<string>((resolve) => {
        let got = "";
        const socket = dial(Number(port), "127.0.0.1");
        socket
          .on("data", (chunk) => void (got += chunk.toString()))
          .on("close", () => resolve(got));
        socket.end(
          `POST ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\nContent-Type: application/json\r\n` +
            `Accept: application/json, text/event-stream\r\nContent-Length: ${say.length}\r\n\r\n${say}`,
        );
      });
      expect([target, text.slice(9, 12)]).toEqual([target, expect.stringMatching(/^40[04]$/)]);
    }
    expect(site.sessions()).toBe(0);
  });

  test("answer no foreign Host and no foreign Origin", async () => {
    await using site = await openOwnSite({ kind });
    const foreign = { origin: "https://evil.example" };
    expect((await ask(site, initialize(), foreign)).status).toBe(403);
    const status = await new Promise((resolve) => {
      const request = send(
        site.url,
        { method: "POST", headers: { host: "evil.example", "content-type": "application/json" } },
        (response) => resolve(response.resume().statusCode),
      );
      request.end(JSON.stringify({ jsonrpc: "2.0", id: 1, ...initialize() }));
    });
    expect([421, 403]).toContain(status);
    expect(site.sessions()).toBe(0);
  });

  test("a request id that a client makes up leads to no other request", async () => {
    const seen: unknown[] = [];
    await using site = await openOwnSite({
      kind,
      register: (mcp) =>
        void mcp.registerTool("see", {}, (extra: any) => {
          seen.push(extra.requestInfo.headers["sluice-request-id"]);
          return { content: [] };
        }),
    });
    const session = await open(site);
    const call = { method: "tools/call", params: { name: "see" } };
    await ask(site, call, { ...session, "sluice-request-id": "made-up" });
    await ask(site, call, { ...session, "sluice-request-id": String(seen[0]) });
    expect(seen).toEqual([
      expect.stringMatching(/^[\w-]{36}$/),
      expect.stringMatching(/^[\w-]{36}$/),
    ]);
    expect(seen[1]).not.toBe(seen[0]);
  });

  test("without anything behind them say what to do", async () => {
    await using site = await openOwnSite({ kind });
    const errors: unknown[] = [];
    const handler = toNodeHandler(createFrontHandler(site.sluice), {
      onError: (error) => void errors.push(error),
    });
    const alone = await listen(createServer((req, res) => handler(req, res)));
    onTestFinished(() => alone.close());
    expect((await ask({ url: `${alone.origin}/mcp` }, initialize())).status).toBe(500);
    expect(String(errors)).toMatch(/no app is behind it; use it as app\.use/);
  });

  test("a body that no parser read before them reaches the transport", async () => {
    let serve: RequestListener = () => {};
    const plain = await listen(createServer((req, res) => serve(req, res)));
    onTestFinished(() => plain.close());
    const url = `${plain.origin}/mcp`;
    await using site = await openOwnSite({ kind, sluice: { endpoint: url } });
    const front = toNodeHandler(createFrontHandler(site.sluice));
    serve = (req, res) =>
      front(req, res, async () => {
        const mcp = site.sluice.attach(new McpServerV1({ name: "plain", version: "1" }));
        const transport = new TransportV1();
        await mcp.connect(transport);
        await transport.handleRequest(req, res);
      });
    const { status, message } = await ask({ url }, { method: "resources/list" });
    expect([status, message.result.resources.length]).toEqual([200, 1]);
    const _meta = { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } };
    const call = { method: "resources/stream", params: { uri: "files://own/a.txt", _meta } };
    expect((await ask({ url }, call)).text).toBe("hello");
    expect((await ask({ url }, { method: "nothing" })).message.error.code).toBe(-32_601);
  });
});

describe("a server of SDK v1", () => {
  test("has everything over stdio but bytes beside the messages", async () => {
    await using site = await openOwnSite({ kind: "McpServer of SDK v1" });
    const mcp = site.sluice.attach(new McpServerV1({ name: "stdio", version: "1" }));
    const [input, output] = [new PassThrough(), new PassThrough()];
    await mcp.connect(new StdioServerTransport(input, output));
    const lines = createInterface({ input: output })[Symbol.asyncIterator]();
    const say = async (message: object): Promise<any> => {
      input.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, ...message })}\n`);
      return JSON.parse((await lines.next()).value as string);
    };
    const opened = await say(initialize({ resourceStreaming: {} }));
    expect(opened.result.capabilities.resources).toMatchObject({ subscribe: true });
    expect((await say({ method: "resources/list" })).result.resources).toHaveLength(1);
    const read = { method: "resources/read", params: { uri: "files://own/a.txt" } };
    expect((await say(read)).result.contents).toMatchObject([{ text: "hello" }]);
    const wrong = { method: "resources/subscribe", params: {} };
    expect((await say(wrong)).error.code).toBe(-32_602);
    await mcp.close();
  });

  test("says at once what it cannot have, and why", async () => {
    await using site = await openOwnSite({ kind: "McpServer of SDK v1" });
    const info = { name: "x", version: "1" };
    expect(() => site.sluice.attach(new McpServerV1(info), { binary: {} as never })).toThrow(
      /binary transfer needs an McpServer of @modelcontextprotocol\/server/,
    );
    expect(() => site.sluice.attach(new LowServerV1(info), { tools: true })).toThrow(
      /has no registry for the tool list_files: pass a McpServer/,
    );
    expect(() => site.sluice.attach(new LowServerV2(info) as never)).toThrow(
      /a McpServer or Server of @modelcontextprotocol.sdk/,
    );
    expect(() => site.sluice.attach({} as never)).toThrow(
      /a McpServer or Server of @modelcontextprotocol.sdk/,
    );
  });

  test("is refused if create gives it, with what to write", async () => {
    const errors: Error[] = [];
    const sluice = createSluice({
      endpoint: "http://127.0.0.1:1/mcp",
      keys: "ephemeral",
      storage: createMemoryBackend({}),
      onError: (error) => void errors.push(error as Error),
    });
    const v1 = new McpServerV1({ name: "own", version: "1.0.0" });
    sluice.attach(v1);
    for (const given of [v1, undefined]) {
      const handler = createHandler({ sluice, create: () => given as never, sessions: false });
      const request = new Request("http://127.0.0.1:1/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2025-11-25",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
      });
      expect((await handler.fetch(request)).status).toBe(500);
      expect(errors.splice(0)).toMatchObject([{ message: expect.stringMatching(/behind: "app"/) }]);
    }
  });

  test("keeps what a low-level Server answers itself", async () => {
    await using site = await openOwnSite({
      kind: "low-level Server of SDK v1",
      register(mcp) {
        const low = mcp as unknown as LowServerV1;
        low.registerCapabilities({ resources: {} });
        const own = { uri: "own://1", name: "own" };
        low.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: [own] }));
        low.setRequestHandler(ReadResourceRequestSchema, ({ params }) => ({
          contents: [{ uri: params.uri, text: "mine" }],
        }));
      },
    });
    const client = await connect("SDK v1", site.url);
    const { resources } = await client.listResources();
    expect(resources.map((each) => each.uri)).toEqual(["own://1", "files://own/a.txt"]);
    expect((await client.readResource({ uri: "own://1" })).contents).toMatchObject([
      { text: "mine" },
    ]);
    expect((await client.readResource({ uri: "files://own/a.txt" })).contents).toMatchObject([
      { text: "hello" },
    ]);
    await expect(streamResource(client, "own://1")).rejects.toMatchObject({});
    await client.close();
  });

  test("refuses a read without the scopes that its author asks for", async () => {
    await using site = await openOwnSite({
      kind: "McpServer of SDK v1",
      sluice: {
        principal,
        scopeChallenge: ({ authInfo }) =>
          authInfo?.token === "ann" ? undefined : { scopes: ["files:read"] },
      },
      node: { authenticate },
    });
    const read = { method: "resources/read", params: { uri: "files://own/a.txt" } };
    const anns = await open(site, { authorization: "Bearer ann" });
    expect((await ask(site, read, anns)).message.result.contents[0].text).toBe("hello");
    const bobs = await open(site, { authorization: "Bearer bob" });
    expect((await ask(site, read, bobs)).message.error.data.reason).toBe("forbidden");
  });
});
