// Which words of a process make an address of this machine its own, and what its user is asked.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { beforeEach, describe, expect, test } from "vitest";
import { createHost } from "./bridged.ts";
import { callTool, hostOf, listening, makeFolders, type Behind, type Folders } from "./filing.ts";

/** A program whose tool gives the result that its argument has, as one that fetches a page gives the page. */
const echoing: Behind = {
  command: process.execPath,
  args: [
    "-e",
    `const say = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (method === "initialize") say(id, { protocolVersion: params.protocolVersion,
        capabilities: { tools: {} }, serverInfo: { name: "echoing", version: "1" } });
      else if (method === "tools/list") say(id, { tools: [{ name: "give", inputSchema: { type: "object" } }] });
      else if (method === "tools/call") say(id, params.arguments);
      else if (id !== undefined)
        console.log(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } }));
    });`,
  ],
};

let folders: Folders;
/** Another program of the user. */
let local: URL;
let requests: { readonly method: string; readonly headers: NodeJS.Dict<unknown> }[];
beforeEach(async () => {
  folders = makeFolders();
  writeFileSync(join(folders.send, "my.txt"), "mine");
  requests = [];
  local = await listening((request, response) => {
    requests.push({ method: request.method!, headers: request.headers });
    request.resume().on("end", () => response.end("an index"));
  });
});

/** A host whose user answers so; without an answer it cannot ask. */
async function hostWith(action?: "accept" | "decline", revision: "legacy" | "modern" = "legacy") {
  const questions: string[] = [];
  const host = action ? createHost(revision) : new Client({ name: "shy", version: "1" });
  if (action)
    host.setRequestHandler("elicitation/create", ({ params }) => {
      questions.push(params.message);
      return action === "accept" ? { action, content: { agree: true } } : { action };
    });
  const { save: saveTo, send } = folders;
  const client = await hostOf(echoing, { saveTo, sendFrom: [send] }, host);
  return { client, questions };
}

const saveFrom = (client: Client, path = "a.bin") =>
  callTool(client, "save_resource", { uri: new URL("/a", local).href, path });

const sendBy = (client: Client, result: object) =>
  callTool(client, "send_file", { path: "my.txt", tool: "give", arguments: result });

const upload = () => ({
  upload_url: new URL("/a", local).href,
  method: "POST",
  headers: { "x-of-page": "1" },
});
const text = (words: string) => ({ content: [{ type: "text", text: words }] });

describe("a text of a result names no address", () => {
  test.each<[string, () => object]>([
    ["a text", () => text(`see ${local.origin} for more`)],
    ["nothing but the address as a text", () => text(local.href)],
    ["a name of a link", () => link("https://example.com/", `of ${local.origin}`)],
    ["words in structured content", () => structured({ page: `see ${local.href}` })],
    ["a member's name", () => structured({ [local.href]: "" })],
    ["an embedded text", () => ({ content: [{ type: "resource", resource: embedded() }] })],
  ])("if it is %s", async (_where, result) => {
    const { client, questions } = await hostWith("accept");
    await callTool(client, "give", { ...result() });
    expect((await saveFrom(client)).text).toContain("--trust");
    expect(questions).toEqual([]);
    expect(requests).toEqual([]);
  });

  test("a text with an upload address gets no file, for servers of this machine and others", async () => {
    const { client, questions } = await hostWith("accept");
    const said = await sendBy(client, text(JSON.stringify(upload())));
    expect(said).toMatchObject({ isError: true, text: expect.stringContaining("no address") });
    expect(questions).toEqual([]);
    expect(requests).toEqual([]);
  });
});

const link = (uri: string, name: string) => ({
  content: [{ type: "resource_link", uri, name }],
});
const structured = (structuredContent: object) => ({ content: [], structuredContent });
const embedded = () => ({ uri: "x://page", text: local.href });

for (const revision of ["legacy", "modern"] as const)
  describe(`${revision} host`, () => {
    test.each<[string, () => object]>([
      ["a link to a resource", () => link(new URL("/a", local).href, "a")],
      ["structured content", () => structured({ items: [{ url: new URL("/a", local).href }] })],
    ])("an address in %s is read after one question for its origin", async (_where, result) => {
      const { client, questions } = await hostWith("accept", revision);
      await callTool(client, "give", { ...result() });
      expect(await saveFrom(client)).toMatchObject({ isError: false });
      expect(await saveFrom(client, "b.bin")).toMatchObject({ isError: false });
      expect(questions).toEqual([expect.stringContaining(`names ${local.origin},`)]);
      expect(readdirSync(folders.save).toSorted()).toEqual(["a.bin", "b.bin", "spooled"]);
    });

    test("an upload address in structured content gets a file after the question", async () => {
      const { client, questions } = await hostWith("accept", revision);
      const said = await sendBy(client, structured(upload()));
      expect(said.text).toContain("Sent my.txt");
      expect(questions).toEqual([expect.stringContaining(local.origin)]);
      expect(requests).toMatchObject([{ method: "POST", headers: { "x-of-page": "1" } }]);
    });

    test("a no counts for the origin, for saves and for files that are sent", async () => {
      const { client, questions } = await hostWith("decline", revision);
      await callTool(client, "give", { ...structured(upload()) });
      expect(await saveFrom(client)).toMatchObject({ isError: true });
      expect((await sendBy(client, structured(upload()))).text).toContain(
        "the user allows no files",
      );
      expect(questions).toHaveLength(1);
      expect(requests).toEqual([]);
    });
  });

test("calls at the same time share one question", async () => {
  const { client, questions } = await hostWith("accept");
  await callTool(client, "give", { ...structured(upload()) });
  const said = await Promise.all(["a", "b", "c"].map((name) => saveFrom(client, name)));
  expect(said.map(({ isError }) => isError)).toEqual([false, false, false]);
  expect(questions).toHaveLength(1);
});

test("a host that cannot ask hears of --trust with the origin, which then needs no question", async () => {
  const { client } = await hostWith();
  await callTool(client, "give", { ...structured(upload()) });
  expect((await saveFrom(client)).text).toContain(`--trust ${local.origin}`);
  expect(requests).toEqual([]);
  const options = { saveTo: folders.save, trustedOrigins: [local.origin] };
  const trusting = await hostOf(echoing, options, new Client({ name: "shy", version: "1" }));
  await callTool(trusting, "give", { ...structured(upload()) });
  expect(await saveFrom(trusting)).toMatchObject({ isError: false });
});

test("consent to one origin does not extend to another, even after a redirect", async () => {
  const other = await listening((_request, response) => void response.end("secret"));
  local = await listening((_request, response) => {
    response.writeHead(302, { location: new URL("/b", other).href }).end();
  });
  const { client, questions } = await hostWith("accept");
  await callTool(client, "give", { ...structured(upload()) });
  expect(await saveFrom(client)).toMatchObject({ isError: true });
  expect(questions).toHaveLength(1);
  expect(existsSync(join(folders.save, "a.bin"))).toBe(false);
});

test("a modern host with a question for the size and one for the origin is asked each once", async () => {
  const questions: string[] = [];
  const host = createHost("modern");
  host.setRequestHandler("elicitation/create", ({ params }) => {
    questions.push(params.message);
    return { action: "accept", content: { agree: true } };
  });
  const options = { sendFrom: [folders.send], agreedBytes: 1 };
  const client = await hostOf(echoing, options, host);
  const said = await sendBy(client, structured(upload()));
  expect(said.text).toContain("Sent my.txt");
  expect(questions).toEqual([
    expect.stringContaining("4 bytes"),
    expect.stringContaining(local.origin),
  ]);
});
