// @module-tag slow
import { createHash, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { join } from "node:path";
import { Client as ClientV2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioV2 } from "@modelcontextprotocol/client/stdio";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Server as ServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as v1 from "@modelcontextprotocol/sdk/types.js";
import { createMcpHandler, Server as ServerV2 } from "@modelcontextprotocol/server";
import { expect, inject, onTestFinished, test } from "vitest";
import * as z from "zod";
import { makeFolders } from "./filing.ts";
import { listen } from "./peers.ts";

const main = inject("programs")["packages/cli/src/main.ts"]!;
const content = Buffer.alloc(300_000, createHash("sha512").update("bytes").digest());
const sha256 = createHash("sha256").update(content).digest("hex");
const info = { name: "peer", version: "1" };
const capabilities = { tools: {}, resources: {} };
const contents = (uri: string) => ({ contents: [{ uri, blob: content.toString("base64") }] });

const tools = [
  ["in_argument", { contentEncoding: "base64" }],
  ["by_uri", { "x-mcp-file": {} }],
  ["by_address", {}],
  ["asks", {}],
].map(([name, schema]) => ({
  name: name as string,
  inputSchema: {
    type: "object" as const,
    properties: { file: { type: "string" as const, ...(schema as object) } },
  },
}));

/** What the servers of both SDKs do with a file. */
interface Taking {
  /** Address for one. */
  readonly put: () => string;
  /** Digests of what came there. */
  readonly got: string[];
  /** Forms that held the file. */
  forms: number;
}

function take(name: string, file: unknown, { put, got }: Taking) {
  const given = createHash("sha256")
    .update(Buffer.from(String(file), "base64"))
    .digest("hex");
  const structuredContent: Record<string, unknown> =
    name === "by_address"
      ? { upload_url: put() }
      : { sha256: name === "by_uri" ? got.at(-1) : given };
  return { content: [], structuredContent };
}

function authorized({ put }: Taking) {
  return { file: { uri: "files://1" }, upload: { transport: "https", method: "PUT", url: put() } };
}

/** A server of SDK v1 with sessions. */
function serveV1(taking: Taking): RequestListener {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  return (request, response) => {
    const session = sessions.get(String(request.headers["mcp-session-id"]));
    if (session) return void session.handleRequest(request, response);
    const server = new ServerV1(info, { capabilities });
    server.setRequestHandler(v1.ListToolsRequestSchema, () => ({ tools }));
    server.setRequestHandler(v1.ReadResourceRequestSchema, ({ params }) => contents(params.uri));
    server.setRequestHandler(v1.CallToolRequestSchema, async ({ params }, extra) => {
      if (params.name !== "asks") return take(params.name, params.arguments?.["file"], taking);
      const asked = {
        mode: "binary",
        message: "Your file",
        requestedSchema: { type: "object", properties: { f: { type: "file" } } },
        uploadEndpoints: { f: { url: taking.put(), uploadId: "u" } },
      };
      const question = { method: "elicitation/create", params: asked } as unknown;
      const answer = await extra.sendRequest(question as v1.ServerRequest, v1.ResultSchema);
      return { content: [], structuredContent: { answer: JSON.stringify(answer) } };
    });
    const authorize = z.object({ method: z.literal("files/authorizeUpload"), params: z.unknown() });
    server.setRequestHandler(authorize, () => authorized(taking));
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    return void server
      .connect(transport as never)
      .then(() => transport.handleRequest(request, response));
  };
}

/** A server of SDK v2, which answers both revisions. */
function serveV2(taking: Taking): RequestListener {
  const handle = toNodeHandler(
    createMcpHandler(() => {
      const server = new ServerV2(info, { capabilities });
      server.setRequestHandler("tools/list", () => ({ tools }));
      server.setRequestHandler("resources/read", ({ params }) => contents(params.uri));
      server.setRequestHandler("tools/call", ({ params }) =>
        take(params.name, params.arguments?.["file"], taking),
      );
      server.setRequestHandler("files/authorizeUpload", { params: z.looseObject({}) }, () =>
        authorized(taking),
      );
      return server;
    }),
  );
  return (request, response) =>
    void handle(request as NodeIncomingMessageLike & IncomingMessage, response);
}

async function serve(version: "v1" | "v2"): Promise<Taking & { readonly url: URL }> {
  let origin = "";
  const taking: Taking = { put: () => `${origin}/put`, got: [], forms: 0 };
  const handle = version === "v1" ? serveV1(taking) : serveV2(taking);
  const server = createServer((request, response) => {
    if (request.url !== "/put") return handle(request, response);
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks);
      if (request.method === "POST") taking.forms += body.includes(content) ? 1 : 0;
      else taking.got.push(createHash("sha256").update(body).digest("hex"));
      response.end();
    });
    return undefined;
  });
  const { url } = await listen(server);
  origin = url.origin;
  return Object.assign(taking, { url });
}

/** The user types this path wherever one is asked for. */
const typed = { action: "accept" as const, content: { path: "my.bin" } };

type ToolCaller = (name: string, args: Record<string, unknown>) => Promise<Record<string, any>>;

/** A host of an SDK that starts the command as hosts do. */
async function startHost(version: "v1" | "v2", args: string[]): Promise<ToolCaller> {
  const command = { command: process.execPath, args: [main, "bridge", ...args] };
  if (version === "v1") {
    const client = new ClientV1(info, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler(v1.ElicitRequestSchema, () => typed);
    await client.connect(new StdioV1(command));
    onTestFinished(() => client.close());
    return (name, given) => client.callTool({ name, arguments: given });
  }
  const client = new ClientV2(info, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler("elicitation/create", () => typed);
  await client.connect(new StdioV2(command));
  onTestFinished(() => client.close());
  return (name, given) => client.callTool({ name, arguments: given });
}

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("each SDK on each side once: a pair of v1 runs with SLUICE_DEEP");

test.each([["v1", "v2"], ["v2", "v1"], ...(isDeep ? [["v1", "v1"] as const] : [])] as const)(
  "a host of SDK %s and a server of SDK %s: files arrive byte for byte",
  async (host, peer) => {
    const { save, send } = makeFolders();
    writeFileSync(join(send, "my.bin"), content);
    const server = await serve(peer);
    const folders = ["--save-to", save, "--send-from", send, "--yes-below", "1G"];
    const call = await startHost(host, [server.url.href, ...folders]);
    const saved = await call("save_resource", { uri: "test://blob", path: "got.bin" });
    expect(saved["structuredContent"]).toMatchObject({ size: content.length, sha256 });
    expect(readFileSync(join(save, "got.bin")).equals(content)).toBe(true);
    const sendTo = async (tool: string, as?: "asked") => {
      const { structuredContent } = await call("send_file", { path: "my.bin", tool, as });
      return structuredContent as object;
    };
    expect(await sendTo("by_uri")).toMatchObject({ way: "uri", result: { sha256 } });
    expect(await sendTo("in_argument")).toMatchObject({ way: "base64", result: { sha256 } });
    expect(await sendTo("by_address", "asked")).toMatchObject({ way: "url" });
    expect(server.got).toEqual([sha256, sha256]);
    if (peer === "v2") return;
    expect(await sendTo("asks", "asked")).toMatchObject({ way: "asked" });
    // the model calls the tool itself: the user is asked for a path
    const { structuredContent } = await call("asks", {});
    expect(structuredContent["answer"]).toContain(sha256);
    expect(server.forms).toBe(2);
  },
);
