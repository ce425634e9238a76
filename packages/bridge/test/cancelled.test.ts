import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const long = "x".repeat(100_000);
/** Comes in one chunk with what is before it. */
const brief = "x".repeat(1_000);
const filesIn = (save: string): string[] =>
  existsSync(join(save, "spooled")) ? readdirSync(join(save, "spooled")) : [];

/** A server over stdio: `hang` is answered with a long text once it is cancelled, `fine` at once. */
const answersLate = {
  command: process.execPath,
  args: [
    "-e",
    `const say = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
    const text = (text) => ({ content: [{ type: "text", text }] });
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion,
        capabilities: { tools: {} }, serverInfo: { name: "late", version: "1" } } });
      else if (method === "notifications/cancelled") say({ id: params.requestId, result: text("x".repeat(100_000)) });
      else if (method === "tools/list") say({ id, result: { tools: [] } });
      else if (method === "tools/call" && params.name === "fine") say({ id, result: text("fine") });
      else if (method === "tools/call") say({ method: "notifications/progress", params: { progressToken: params._meta.progressToken, progress: 1 } });
    });`,
  ],
};

test("the answer to a cancelled call leaves no file", async () => {
  const { save } = makeFolders();
  const client = await hostOf(answersLate, { saveTo: save });
  const controller = new AbortController();
  const hanging = client.callTool(
    { name: "hang", arguments: {} },
    { signal: controller.signal, onprogress: () => controller.abort(new Error("enough")) },
  );
  await expect(hanging).rejects.toThrow("enough");
  expect((await callTool(client, "fine")).text).toBe("fine");
  expect(filesIn(save)).toEqual([]);
});

test("a save that is cancelled while the answer comes leaves no file", async () => {
  const { save } = makeFolders();
  const controller = new AbortController();
  let ended = 0;
  const url = await handWritten(({ id, method, params }, response) => {
    if (method === "tools/call") return { result: { content: [{ type: "text", text: "fine" }] } };
    if (method !== "resources/read") return undefined;
    response.on("close", () => (ended += 1));
    response.writeHead(200, { "content-type": "application/json" });
    const start = JSON.stringify({
      jsonrpc: "2.0",
      id,
      result: { contents: [{ uri: params["uri"] }] },
    });
    response.write(`${start.slice(0, -4)},"text":"${long}`);
    setTimeout(() => controller.abort(new Error("enough")), 50);
    return undefined;
  });
  const client = await hostOf(url, { saveTo: save });
  const call = { name: "save_resource", arguments: { uri: "a://b/c.txt" } };
  await expect(client.callTool(call, { signal: controller.signal })).rejects.toThrow("enough");
  await expect.poll(() => ended).toBe(1);
  await expect.poll(() => filesIn(save)).toEqual([]);
  expect(readdirSync(save)).toEqual(["spooled"]);
});

test.each([
  [
    "an answer of another JSON-RPC",
    (id: unknown) => [{ jsonrpc: "1.0", id, result: { text: brief } }],
  ],
  [
    "an answer that comes twice",
    (id: unknown) => [
      { jsonrpc: "2.0", id, result: { content: [] } },
      { jsonrpc: "2.0", id, result: { text: brief } },
    ],
  ],
])("%s leaves no file, as no message for the host comes of it", async (_what, answersTo) => {
  const { save } = makeFolders();
  const url = await handWritten(({ id, method, params }, response) => {
    if (method !== "tools/call") return { result: { tools: [] } };
    if (params["name"] === "fine") return { result: { content: [{ type: "text", text: "fine" }] } };
    response.writeHead(200, { "content-type": "text/event-stream" });
    const events = answersTo(id).map((answer) => `data: ${JSON.stringify(answer)}\n\n`);
    response.end(events.join(""));
    return undefined;
  });
  const client = await hostOf(url, { saveTo: save, inlineBytes: 100 });
  await callTool(client, "odd").catch(() => undefined);
  expect((await callTool(client, "fine")).text).toBe("fine");
  await expect.poll(() => filesIn(save)).toEqual([]);
});

test("an error with a long text leaves its file for the host, and none of a save", async () => {
  const { save } = makeFolders();
  const url = await handWritten(({ method }) => {
    if (method === "tools/list") return { result: { tools: [] } };
    if (method === "tools/call" || method === "resources/read")
      return { error: { code: -32_000, message: "no", data: { trace: long } } };
    return undefined;
  });
  const client = await hostOf(url, { saveTo: save });
  await expect(callTool(client, "any")).rejects.toThrow("no");
  expect(filesIn(save)).toHaveLength(1);
  const said = await callTool(client, "save_resource", { uri: "a://b/c.txt" });
  expect(said.isError).toBe(true);
  await expect.poll(() => filesIn(save)).toHaveLength(1);
});

test("long texts in answers to the bridge's own questions leave no files", async () => {
  const { save } = makeFolders();
  const url = await handWritten(({ method, params }) => {
    if (method === "resources/read")
      return { result: { contents: [{ uri: params["uri"], text: brief }] } };
    if (method === "resources/list")
      return { result: { resources: [{ uri: "a://b/other", name: "o", description: long }] } };
    const tool = { name: "t", description: long, inputSchema: { type: "object" } };
    return method === "tools/list" ? { result: { tools: [tool] } } : { result: { note: long } };
  });
  const client = await hostOf(url, { saveTo: save });
  const said = await callTool(client, "save_resource", { uri: "a://b/c.txt" });
  expect(said.isError).toBe(false);
  await expect.poll(() => filesIn(save)).toEqual([]);
});
