import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport as InMemoryTransportV1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { systemClock } from "@sluice/core/internal";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { fileInput, type AttachUploadsOptions } from "../src/index.ts";
import { uploadAppOf } from "../src/page/upload-app.ts";
import { UploadPageStore } from "../src/page/upload-pages.ts";
import { attachUploadTools } from "../src/tools/upload-tools.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import { startUploadServer, type UploadServer } from "./upload-server.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** The tools of the pair, and one that takes a file. */
async function start(options?: AttachUploadsOptions, given?: UploadServer) {
  const server = given ?? (await startUploadServer());
  const rpc = createToolServer(
    server.sluice,
    async () => ({ content: [] }),
    (mcp) => {
      server.uploads.attach(mcp, options);
      const inputSchema = z.object({ file: fileInput() });
      mcp.registerTool("size", { inputSchema }, async ({ file }, ctx) => {
        const { size, name } = await server.uploads.open(file, {}, { mcp, ctx });
        return { content: [{ type: "text", text: `${name} ${size}` }] };
      });
    },
  );
  return { ...server, rpc };
}

interface Told {
  readonly text: string;
  readonly isError: boolean;
  readonly data: Record<string, any>;
}

type CallTool = (name: string, args: Record<string, unknown>) => Promise<Told>;

/** Calls as SDK v2 does. */
function callsOf(client: Pick<Client, "callTool">): CallTool {
  return async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    const [content] = result.content as { text: string }[];
    const data = (result.structuredContent ?? {}) as Record<string, any>;
    return { text: content!.text, isError: result.isError === true, data };
  };
}

const put = (url: string, body = "a report") =>
  fetch(url, { method: "PUT", body, headers: { "content-type": "text/plain" } });

test.each(eras)(
  "%s: a model asks for a file, and gives its URI to a tool that takes files",
  async (era) => {
    const { rpc } = await start();
    const client = await connectAnswerer({ era, fetch: rpc, capabilities: {}, token: "alice" });
    const call = callsOf(client);
    const asked = await call("request_upload", { purpose: "For the report", accept: ["text/*"] });
    const { data } = asked;
    expect(data).toMatchObject({ status: "upload_required", method: "PUT", accept: ["text/*"] });
    for (const said of ["For the report", data["page_url"], data["upload_id"], "check_upload"])
      expect(asked.text).toContain(said);
    expect((await put(`${data["upload_url"]}notes.txt`)).status).toBe(201);
    const checked = await call("check_upload", { upload_id: data["upload_id"] });
    expect(checked.data).toEqual({
      status: "received",
      upload_id: data["upload_id"],
      file: expect.stringMatching(/^mcp-file:\/\/127\.0\.0\.1:\d+\/[\w-]{32}$/),
      name: "notes.txt",
      size: 8,
      mime_type: "text/plain",
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      expires_at: data["expires_at"],
    });
    expect(checked.text).toContain(checked.data["file"]);
    expect(await call("size", { file: checked.data["file"] })).toMatchObject({
      text: "notes.txt 8",
    });
    // the page says that it was taken, and the URI goes on naming the file
    const page = await fetch(data["page_url"], { headers: { accept: "text/html" } });
    expect(await page.text()).toContain("All done");
    const again = await call("check_upload", { upload_id: data["upload_id"] });
    expect(await call("size", { file: again.data["file"] })).toMatchObject({ text: "notes.txt 8" });
  },
);

test("the model is told to wait while there is no file, and is told of a refusal", async () => {
  const { rpc } = await start();
  const client = await connectAnswerer({ era: "modern", fetch: rpc, token: "alice" });
  const call = callsOf(client);
  const { data } = await call("request_upload", {});
  let now = systemClock.now();
  vi.spyOn(systemClock, "now").mockImplementation(() => (now += 30_000));
  const waiting = await call("check_upload", { upload_id: data["upload_id"] });
  vi.restoreAllMocks();
  expect(waiting.data).toMatchObject({ status: "waiting", page_url: data["page_url"] });
  const page = await fetch(data["page_url"], { headers: { accept: "text/html" } });
  await fetch(page.url, {
    method: "POST",
    headers: { "content-type": "application/json", origin: new URL(page.url).origin },
    body: JSON.stringify({ answerId: "a".repeat(22), action: "decline" }),
  });
  const declined = await call("check_upload", { upload_id: data["upload_id"] });
  expect(declined.data).toMatchObject({ status: "declined" });
});

test("an upload is the caller's, and of the tool that asked", async () => {
  const server = await startUploadServer();
  const { rpc } = await start({}, server);
  const connect = async (token: string) =>
    callsOf(await connectAnswerer({ era: "modern", fetch: rpc, token }));
  const [alice, bob] = [await connect("alice"), await connect("bob")];
  const { data } = await alice("request_upload", {});
  await put(data["upload_url"]);
  const unknown = { isError: true, text: expect.stringMatching(/upload_id/) };
  const id = data["upload_id"] as string;
  expect(await bob("check_upload", { upload_id: id })).toMatchObject(unknown);
  const altered = id.slice(0, -1) + (id.endsWith("A") ? "B" : "A");
  for (const wrong of [altered, "../x", ""])
    expect(await alice("check_upload", { upload_id: wrong })).toMatchObject(unknown);
  const { data: received } = await alice("check_upload", { upload_id: id });
  expect(await bob("size", { file: received["file"] })).toMatchObject({ isError: true });
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 1_000_000);
  expect(await alice("check_upload", { upload_id: id })).toMatchObject(unknown);
});

test("a model asks within the bounds of the author", async () => {
  const bounds = { accept: ["image/*", "text/plain", ".csv"], maxBytes: 1_000 };
  const { rpc } = await start(bounds);
  const client = await connectAnswerer({ era: "modern", fetch: rpc, token: "alice" });
  const call = callsOf(client);
  const within = await call("request_upload", { accept: ["image/png", ".csv"], max_bytes: 10 });
  expect(within.data).toMatchObject({ accept: ["image/png", ".csv"], max_bytes: 10 });
  // an extension that may be a text or a film is a text here
  const resolved = await call("request_upload", { accept: [".png", ".txt", ".ts"] });
  expect(resolved.data["accept"]).toEqual([".png", ".txt", "text/plain"]);
  const most = await call("request_upload", { max_bytes: 10 ** 9 });
  expect(most.data).toMatchObject({ accept: bounds.accept, max_bytes: 1_000 });
  for (const wrong of ["video/mp4", "*/*", "text/*", ".exe"])
    expect(await call("request_upload", { accept: [wrong] })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/not among what is taken here/),
    });
  for (const wrong of [["png"], Array<string>(20).fill(`image/${"x".repeat(200)}`)])
    expect(await call("request_upload", { accept: wrong })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/name a few media types/),
    });
});

test("a file with an extension that stands for what the author takes is received", async () => {
  const { rpc } = await start({ accept: ["text/*"], maxBytes: 1_000 });
  const client = await connectAnswerer({ era: "modern", fetch: rpc, token: "alice" });
  const call = callsOf(client);
  const { tools } = await client.listTools();
  const { properties } = tools.find(({ name }) => name === "request_upload")!.inputSchema;
  expect(properties).toMatchObject({
    accept: { description: "Some of text/*" },
    max_bytes: { description: "At most 1000" },
  });
  const { data } = await call("request_upload", { accept: [".md"] });
  expect(data["accept"]).toEqual([".md"]);
  const notes = { method: "PUT", body: "# Notes\n" };
  expect((await fetch(`${data["upload_url"]}notes.pdf`, notes)).status).toBe(415);
  expect((await fetch(`${data["upload_url"]}notes.md`, notes)).status).toBe(201);
  const { data: received } = await call("check_upload", { upload_id: data["upload_id"] });
  expect(received).toMatchObject({ name: "notes.md", mime_type: "text/plain" });
});

test("the tools say what they do, by the names that the author gives", async () => {
  const { rpc } = await start({ tools: { request: "ask_file", check: "look_file" } });
  const client = await connectAnswerer({ era: "modern", fetch: rpc, token: "alice" });
  const { tools } = await client.listTools();
  const [ask, look] = ["ask_file", "look_file"].map((name) => tools.find((t) => t.name === name));
  expect(ask).toMatchObject({
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
    outputSchema: { type: "object" },
    description: expect.stringContaining("look_file"),
  });
  expect(look).toMatchObject({ annotations: { readOnlyHint: true } });
});

test("SDK v1: a server has the same tools", async () => {
  const { sluice, uploads } = await startUploadServer({ sluice: { anonymous: true } });
  const mcp = uploads.attach(new McpServerV1({ name: "test", version: "1.0.0" }));
  const [ours, theirs] = InMemoryTransportV1.createLinkedPair();
  const client = new ClientV1({ name: "test", version: "1.0.0" });
  onTestFinished(() => client.close());
  await Promise.all([sluice.attach(mcp).connect(ours), client.connect(theirs)]);
  const call = callsOf(client as unknown as Client);
  const { data } = await call("request_upload", {});
  await put(data["upload_url"]);
  const checked = await call("check_upload", { upload_id: data["upload_id"] });
  expect(checked.data).toMatchObject({ status: "received", size: 8 });
});

test("a fault of the server is told to its author, and no more than that to a model", async () => {
  const server = await startUploadServer();
  const fails = async () => Promise.reject(new Error("a path"));
  const mcp = new McpServer({ name: "test", version: "1.0.0" });
  const { host } = server.sluice;
  const parts = { asked: { request: fails, check: fails }, pages: new UploadPageStore(host), host };
  attachUploadTools({ ...parts, app: uploadAppOf(host.endpoint.url) }, mcp);
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: "test", version: "1.0.0" });
  onTestFinished(() => client.close());
  await Promise.all([mcp.connect(ours), client.connect(theirs)]);
  const told = await callsOf(client)("request_upload", {});
  expect([told.isError, told.text.includes("path")]).toEqual([true, false]);
  expect(server.errors).toMatchObject([{ message: "a path" }]);
});
