import { mkdtemp, readdir, readFile, rm, mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FILE_KEYWORD } from "@sluice/core/internal";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { serveHere } from "./run-here.ts";
import { runCommand, type Served } from "./sluice.ts";
import { stdioClients } from "./stdio-client.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("SDK 1 alone over stdio: SDK 2 runs with SLUICE_DEEP");

let root = "";
let inbox = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-save-"));
  inbox = join(root, "inbox");
  await mkdir(join(root, "files"));
  await mkdir(inbox);
  served = await serveHere(join(root, "files"), ["--uploads", inbox, "--no-audit"]);
});
afterAll(async () => {
  await served?.end();
  await rm(root, { recursive: true });
});

/** One request of a client that declared what it can be asked for, and nothing else. */
async function ask(method: string, params: object, capabilities: object = {}): Promise<any> {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  const { name } = params as { name?: string };
  const response = await fetch(served.url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...(name !== undefined && { "mcp-name": name }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }),
  });
  const text = await response.text();
  return JSON.parse(text.startsWith("{") ? text : /^data: ?(\{.*\})$/m.exec(text)![1]!);
}

const save = (args: object, capabilities?: object) =>
  ask("tools/call", { name: "save_file", arguments: args }, capabilities);

/** What ChatGPT fills in, of an argument that is declared with exactly these. */
const hostFields = ["download_url", "file_id", "mime_type", "file_name"];

test("save_file says what its argument is", async () => {
  const { result } = await ask("tools/list", {});
  const { inputSchema } = result.tools.find(({ name }: any) => name === "save_file");
  expect(inputSchema.required ?? []).toEqual([]);
  expect(inputSchema.properties.file).toMatchObject({ type: "object" });
  expect(Object.keys(inputSchema.properties.file.properties)).toEqual(hostFields);
  // a model that is told to leave it out hands over no file, and hosts keep these words
  expect(JSON.stringify(inputSchema)).not.toMatch(/omit|leave|without/i);
  expect(inputSchema.properties.uri).toMatchObject({
    type: "string",
    format: "uri",
    [FILE_KEYWORD]: { maxSize: expect.any(Number) },
  });
});

test("a file in the call is saved under the name that it was given", async () => {
  const file = `data:text/plain;name=${encodeURIComponent("Grüße an alle.txt")};base64,SGFsbG8=`;
  const { result } = await save({ uri: file });
  expect(result.content).toEqual([{ type: "text", text: "Saved as Grüße an alle.txt, 5 B" }]);
  expect(await readFile(join(inbox, "Grüße an alle.txt"), "utf8")).toBe("Hallo");
});

test("hosts that hand files over learn of the argument, and no private address is fetched", async () => {
  const { result } = await ask("tools/list", {});
  const { _meta } = result.tools.find(({ name }: any) => name === "save_file");
  expect(_meta).toMatchObject({ "openai/fileParams": ["file"] });
  for (const scheme of ["http", "https"]) {
    const url = `${scheme}://127.0.0.1:9/secret.txt`;
    const answer = await save({ file: { download_url: url, file_id: "file-1" } });
    expect(JSON.stringify(answer)).toContain("public address");
  }
});

test("a name that is taken gets a number, and the answer says so", async () => {
  const file = "data:text/plain;name=readme.md;base64,SGFsbG8=";
  await save({ uri: file });
  const other = "data:text/plain;name=readme.md;base64,V29ybGQ=";
  const { result } = await save({ uri: other });
  const text = "Saved as readme (1).md, 5 B; the name was taken";
  expect(result.content).toEqual([{ type: "text", text }]);
  expect(result.structuredContent).toMatchObject({ name: "readme (1).md", size: 5 });
});

test("a call that a host repeats, at once or later, gets the same answer and saves one file", async () => {
  const first = (await save({})).result.structuredContent;
  const sent = await fetch(`${first.upload_url}twice.txt`, { method: "PUT", body: "by a host" });
  expect(sent.status).toBe(201);
  const uploaded = async (): Promise<string> => {
    const { result } = await ask("files/authorizeUpload", {
      name: "handle.txt",
      mimeType: "text/plain",
      size: 5,
    });
    const { method, url } = result.upload;
    const headers = { "content-type": "text/plain" };
    await fetch(url, { method, headers, body: "Hallo" });
    return result.file.uri;
  };
  const named = "data:text/plain;name=again.md;base64,SGFsbG8=";
  for (const args of [{ upload_id: first.upload_id }, { uri: await uploaded() }, { uri: named }]) {
    const before = await readdir(inbox);
    const twins = await Promise.all([save(args), save(args)]);
    const later = await save(args);
    for (const { result } of [...twins, later]) {
      expect(result.isError).toBeUndefined();
      expect(result.content).toEqual(later.result.content);
    }
    expect((await readdir(inbox)).length).toBe(before.length + 1);
    // what somebody removed is not said to be there
    await rm(join(inbox, later.result.structuredContent.name));
    const gone = await save(args);
    // bytes in the call can be saved again
    expect("error" in gone || gone.result.isError === true).toBe(args.uri !== named);
  }
});

test("the name of a file in the call leads nowhere else", async () => {
  const file = `data:text/plain;name=${encodeURIComponent("../../escaped.txt")};base64,SGFsbG8=`;
  expect((await save({ uri: file })).result.structuredContent.name).toBe("escaped.txt");
  expect(await readdir(root)).not.toContain("escaped.txt");
});

test("a program is not saved as a picture by its name alone", async () => {
  const elf = Buffer.concat([
    Buffer.from("7f454c46020101000000000000000000", "hex"),
    Buffer.alloc(64),
  ]);
  const file = `data:application/octet-stream;name=cat.png;base64,${elf.toString("base64")}`;
  expect((await save({ uri: file })).result.isError).toBe(true);
  expect(await readdir(inbox)).not.toContain("cat.png");
});

test("bytes that come without a name get the one that was declared", async () => {
  const { result } = await ask("files/authorizeUpload", {
    name: "Bericht 2026.pdf",
    mimeType: "application/pdf",
    size: 9,
  });
  const { file, upload } = result;
  const sent = await fetch(upload.url, {
    method: upload.method,
    headers: { "content-type": "application/pdf" },
    body: "%PDF-1.4\n",
  });
  expect(sent.status).toBeLessThan(300);
  expect((await save({ uri: file.uri })).result.structuredContent.name).toBe("Bericht 2026.pdf");
});

test("without a file the user is shown the page", async () => {
  const { result } = await save({}, { elicitation: { url: {} } });
  const [request] = Object.values<any>(result.inputRequests);
  expect(request.params).toMatchObject({ mode: "url", message: expect.stringContaining("file") });
  const page = await fetch(request.params.url);
  expect([page.status, page.headers.get("content-type")]).toEqual([
    200,
    expect.stringContaining("text/html"),
  ]);
  expect(await page.text()).toContain('type="file"');
});

test("a client that cannot ask gets a page and a curl line, and the next call saves what came", async () => {
  const { result } = await save({});
  const { upload_id: uploadId, page_url: page, upload_url: url } = result.structuredContent;
  expect(result.structuredContent).toMatchObject({ status: "upload_required", method: "PUT" });
  expect(result.content[0].text).toContain(`-T FILE '${url}'`);
  expect(url).toMatch(/\/mcp\/u\/[\w-]{32}\/$/);
  expect(url.length).toBeLessThanOrEqual(80);
  expect(uploadId.length).toBeLessThanOrEqual(40);
  expect((await fetch(page, { headers: { accept: "text/html" } })).status).toBe(200);
  const notes = join(root, "notes.txt");
  await writeFile(notes, "by curl");
  const sent = await runCommand(["curl", "-sfT", notes, url]);
  expect(sent.status).toBe(0);
  const saved = (await save({ upload_id: uploadId })).result;
  expect(saved.structuredContent).toMatchObject({ name: "notes.txt", size: 7 });
  expect(await readFile(join(inbox, "notes.txt"), "utf8")).toBe("by curl");
});

test(
  "it is the same for a client of MCP 2025-11-25, in its session and over stdio",
  { tags: "slow" },
  async () => {
    const own = join(root, "own.txt");
    await writeFile(own, "over stdio");
    for (const client of isDeep
      ? (["SDK 1", "SDK 2, MCP 2026-07-28"] as const)
      : ["SDK 1" as const]) {
      const folder = await mkdtemp(join(root, "stdio-"));
      await using connected = await stdioClients[client]([folder, "--stdio", "--uploads", folder]);
      const { structuredContent: asked } = await connected.callTool("save_file");
      expect(asked.status).toBe("upload_required");
      await runCommand(["curl", "-sfT", own, asked.upload_url]);
      const saved = await connected.callTool("save_file", { upload_id: asked.upload_id });
      expect(saved.structuredContent).toMatchObject({ name: "own.txt", size: 10 });
    }
  },
);
