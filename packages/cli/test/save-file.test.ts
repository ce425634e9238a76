import { mkdtemp, readdir, readFile, rm, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FILE_KEYWORD } from "@sluice/core/wire";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { serve, type Served } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
let inbox = "";
let served: Served;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-save-"));
  inbox = join(root, "inbox");
  await mkdir(join(root, "files"));
  await mkdir(inbox);
  served = await serve(join(root, "files"), ["--uploads", inbox, "--no-audit"]);
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

test("save_file says what its argument is", async () => {
  const { result } = await ask("tools/list", {});
  const { inputSchema } = result.tools.find(({ name }: any) => name === "save_file");
  expect(inputSchema.required ?? []).toEqual([]);
  expect(inputSchema.properties.file).toMatchObject({
    description: expect.stringMatching(/`data:` URI.*files\/authorizeUpload/),
    format: "uri",
    [FILE_KEYWORD]: { maxSize: expect.any(Number) },
  });
});

test("a file in the call is saved under the name that it was given", async () => {
  const file = `data:text/plain;name=${encodeURIComponent("Grüße an alle.txt")};base64,SGFsbG8=`;
  const { result } = await save({ file });
  expect(result.content).toEqual([{ type: "text", text: "Grüße an alle.txt" }]);
  expect(await readFile(join(inbox, "Grüße an alle.txt"), "utf8")).toBe("Hallo");
});

test("the name of a file in the call leads nowhere else", async () => {
  const file = `data:text/plain;name=${encodeURIComponent("../../escaped.txt")};base64,SGFsbG8=`;
  expect((await save({ file })).result.structuredContent.name).toBe("escaped.txt");
  expect(await readdir(root)).not.toContain("escaped.txt");
});

test("a program is not saved as a picture by its name alone", async () => {
  const elf = Buffer.concat([
    Buffer.from("7f454c46020101000000000000000000", "hex"),
    Buffer.alloc(64),
  ]);
  const file = `data:application/octet-stream;name=cat.png;base64,${elf.toString("base64")}`;
  expect((await save({ file })).result.isError).toBe(true);
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
  expect((await save({ file: file.uri })).result.structuredContent.name).toBe("Bericht 2026.pdf");
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

test("in a client that cannot ask, the answer asks for the file, and the next call saves it", async () => {
  const { result } = await save({});
  const { status, upload_id, upload_url } = result.structuredContent;
  expect(status).toBe("upload_required");
  await fetch(upload_url, { method: "PUT", body: "%PDF-1.4\n" });
  const saved = await save({ upload_id });
  expect(saved.result.structuredContent).toMatchObject({ size: 9 });
});
