import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Client } from "@modelcontextprotocol/client";
import { FILE_KEYWORD } from "@sluice/core/internal";
import { expect, inject, onTestFinished, test } from "vitest";
import { bodyRefusals, startBodyLimit } from "../../../e2e/bed/body-limit.ts";
import { freePort } from "../../../e2e/bed/listen.ts";
import { asking, askingInResults, uploadPlace } from "./asking.ts";
import { createHost } from "./bridged.ts";
import { serveUploads } from "./serve-uploads.ts";
import { callTool, handWritten, hostOf, listening, makeFolders, type McpAnswer } from "./filing.ts";

const main = inject("programs")["packages/cli/src/main.ts"]!;
const content = Buffer.alloc(100_000, "a file of the user / ");

/** A host that can show nothing. */
const plainHost = () => new Client({ name: "h", version: "1" });

for (const revision of ["legacy", "modern"] as const) {
  test(`${revision} host: a Sluice server's file is saved by streaming, and one is sent to its tool`, async () => {
    const { save, send, outside } = makeFolders();
    writeFileSync(join(outside, "big.bin"), content);
    mkdirSync(join(send, "in"));
    writeFileSync(join(send, "in", "my.txt"), content);
    const inbox = makeFolders().save;
    const url = await serveUploads(outside, inbox);
    const client = await hostOf(url, { saveTo: save, sendFrom: [send] }, revision);
    const saved = await callTool(client, "save_resource", { uri: "files://local/big.bin" });
    expect(saved.facts).toMatchObject({ size: content.length, verified: "length" });
    expect(readFileSync(join(save, "big.bin")).equals(content)).toBe(true);
    const sent = await callTool(client, "send_file", { path: "in/my.txt" });
    expect(sent).toMatchObject({ isError: false, facts: { way: "uri", tool: "save_file" } });
    expect(readFileSync(join(inbox, "my.txt")).equals(content)).toBe(true);
    // a type guessed from the name is not a claim: source code, and bytes of an unknown kind
    for (const name of ["index.ts", "server.key", "f00d"]) {
      const file = name === "f00d" ? gzipSync(content) : content;
      writeFileSync(join(send, name), file);
      const { isError } = await callTool(client, "send_file", { path: name });
      expect([name, isError]).toEqual([name, false]);
      expect(readFileSync(join(inbox, name)).equals(file)).toBe(true);
    }
  });
}

test("send_file sends in steps of at most maxStepBytes", async () => {
  const { send } = makeFolders();
  const inbox = makeFolders().save;
  const file = Buffer.alloc(200_000, "a file in steps / ");
  writeFileSync(join(send, "my.txt"), file);
  const port = await freePort();
  const refuse = bodyRefusals["reads the rest"]!;
  const proxy = await startBodyLimit(() => port, { maxBytes: 100_000, refuse });
  onTestFinished(() => proxy.close());
  const url = `${proxy.origin}/mcp`;
  await serveUploads(send, inbox, "--port", `${port}`, "--public-url", url);
  const settings = { sendFrom: [send], maxStepBytes: 65_536 };
  const client = await hostOf(new URL(url), settings, plainHost());
  expect((await callTool(client, "send_file", { path: "my.txt" })).isError).toBe(false);
  expect(readFileSync(join(inbox, "my.txt")).equals(file)).toBe(true);
  expect(proxy.refused).toEqual([]);
  await expect(hostOf(new URL(url), { ...settings, maxStepBytes: 1 })).rejects.toThrow(
    "openFileTools: maxStepBytes must be a whole number from 65536",
  );
});

test(
  "a Sluice server behind a process gives files by read and by its links, and gets one at its loopback address",
  { tags: "slow" },
  async () => {
    const { save, send, outside } = makeFolders();
    const inbox = makeFolders().save;
    writeFileSync(join(outside, "big.bin"), content);
    writeFileSync(join(send, "my.txt"), content);
    const args = [main, "serve", outside, "--stdio", "--no-audit", "--uploads", inbox];
    const host = createHost("legacy");
    host.setRequestHandler("elicitation/create", () => ({
      action: "accept",
      content: { agree: true },
    }));
    const client = await hostOf(
      { command: process.execPath, args },
      { saveTo: save, sendFrom: [send] },
      host,
    );
    const saved = await callTool(client, "save_resource", { uri: "files://local/big.bin" });
    expect(saved.facts).toMatchObject({ size: content.length, verified: "length" });
    const { facts } = await callTool(client, "get_download_link", { uri: "files://local/big.bin" });
    const link = { uri: facts["download_url"], path: "linked.bin" };
    expect((await callTool(client, "save_resource", link)).facts).toMatchObject({
      verified: "length",
    });
    expect(readFileSync(join(save, "linked.bin")).equals(content)).toBe(true);
    const sent = await callTool(client, "send_file", { path: "my.txt" });
    expect(sent).toMatchObject({ isError: false, facts: { way: "uri" } });
    expect(readFileSync(join(inbox, "my.txt")).equals(content)).toBe(true);
  },
);

/** Server with one tool, and what was PUT or POSTed to other paths. */
async function taking(tool: object, answer: McpAnswer) {
  const got: {
    readonly body: Buffer;
    readonly method: string;
    readonly headers: NodeJS.Dict<unknown>;
  }[] = [];
  const url = await handWritten(
    (call, response) =>
      call.method === "tools/list"
        ? {
            result: {
              tools: [{ name: "take", inputSchema: { type: "object", properties: {} }, ...tool }],
            },
          }
        : answer(call, response),
    (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        got.push({
          body: Buffer.concat(chunks),
          method: request.method!,
          headers: request.headers,
        });
        response.end();
      });
    },
  );
  return { url, got };
}

const structured = (structuredContent: object) => ({ result: { content: [], structuredContent } });

test("a file is put to the URL that a tool answers with, without the token of the server", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  let server = "";
  const { url, got } = await taking({}, () =>
    structured({
      upload_url: new URL("/put/1", server).href,
      method: "PUT",
      headers: { "x-sign": "a" },
    }),
  );
  server = url.href;
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  const said = await callTool(client, "send_file", { path: "my.txt", tool: "take" });
  expect(said).toMatchObject({ isError: false, facts: { way: "url" } });
  expect(got).toMatchObject([
    { method: "PUT", headers: { "x-sign": "a", "content-type": "text/plain" } },
  ]);
  expect(got[0]!.body.equals(content)).toBe(true);
  expect(got[0]!.headers["authorization"]).toBeUndefined();
});

test("a tool that answers upload_required is called again with its upload_id", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  let server = "";
  const calls: unknown[] = [];
  const { url, got } = await taking({}, ({ params }) => {
    calls.push(params["arguments"]);
    if (params["arguments"]?.upload_id === "u1")
      return { result: { content: [{ type: "text", text: `got ${got.length}` }] } };
    const structuredContent = {
      status: "upload_required",
      upload_id: "u1",
      upload_url: new URL("/put/1", server).href,
      method: "PUT",
      max_bytes: 1_000_000,
    };
    return { result: { content: [], structuredContent } };
  });
  server = url.href;
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  const said = await callTool(client, "send_file", {
    path: "my.txt",
    tool: "take",
    arguments: { a: 1 },
  });
  expect(said.text).toContain("got 1");
  expect(calls).toEqual([{ a: 1 }, { a: 1, upload_id: "u1" }]);
});

test.each([
  ['{"a":1}', { a: 1 }],
  [{ a: 1 }, { a: 1 }],
  [null, {}],
  ["", {}],
])("other arguments come as JSON or as an object: %j", async (given, expected) => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  let called: unknown;
  const { url } = await taking({}, ({ params }) => {
    called = params["arguments"];
    return structured({});
  });
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  const args = { path: "my.txt", tool: "take", arguments: given };
  await callTool(client, "send_file", args);
  expect(called).toEqual(expected);
});

test("other arguments that are not an object are refused before the tool is called", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const { url } = await taking({}, () => expect.unreachable("the tool is not called"));
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  for (const given of ["a=1", "[1]", "7", 7]) {
    const args = { path: "my.txt", tool: "take", arguments: given };
    const said = await callTool(client, "send_file", args);
    expect(said).toMatchObject({ isError: true, text: expect.stringContaining("as JSON") });
  }
});

test("a name that looks like one file is found, and never a hidden one", async () => {
  const { send } = makeFolders();
  const screenshot = "Screenshot at 10.00.00\u202fAM.txt";
  for (const name of [screenshot, "mu\u0308ll.txt", ".env", "A.txt", "a.TXT"])
    writeFileSync(join(send, name), content);
  let server = "";
  const { url, got } = await taking({}, () =>
    structured({ upload_url: new URL("/put/1", server).href, method: "PUT" }),
  );
  server = url.href;
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  const sendNamed = (path: string) => callTool(client, "send_file", { path, tool: "take" });
  for (const [path, name] of [
    ["Screenshot at 10.00.00 AM.txt", screenshot],
    ["m\u00fcll.txt", "mu\u0308ll.txt"],
    [join(send, "Screenshot at 10.00.00 am.txt"), screenshot],
  ])
    expect(await sendNamed(path!)).toMatchObject({ isError: false, facts: { name } });
  expect(got).toHaveLength(3);
  // the first looks like a dot, and the last may mean two files
  for (const path of ["\u2024env", "none.txt", "a.txt"])
    expect((await sendNamed(path)).text).toBe("there is no such file");
});

test.each([
  ["the same cursor and page for ever", () => "8"],
  ["null at the end", () => null],
  ["an empty text at the end", () => ""],
  ["no cursor at the end", () => undefined],
])("a server that lists its tools with %s has each of them once", async (_, cursorOf) => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  let lists = 0;
  const takes = { type: "string", format: "uri", [FILE_KEYWORD]: {} };
  const inputSchema = { type: "object", properties: { file: takes } };
  const url = await handWritten(({ method }) => {
    if (method !== "tools/list") return { result: { content: [] } };
    lists++;
    return { result: { tools: [{ name: "take", inputSchema }], nextCursor: cursorOf() } };
  });
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  // the one tool that takes files, which has no way for this server
  const said = await callTool(client, "send_file", { path: "my.txt" });
  expect(said.text).not.toContain("several tools");
  expect(lists).toBeLessThan(5);
});

test("nothing goes to a URL of another origin unless the user named it", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const stolen: string[] = [];
  const other = await listening((request, response) => {
    stolen.push(request.url!);
    request.resume().on("end", () => response.end());
  });
  const { url } = await taking({}, () => structured({ upload_url: `${other.href}put` }));
  const client = await hostOf(url, { sendFrom: [send] }, plainHost());
  const said = await callTool(client, "send_file", { path: "my.txt", tool: "take" });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("--trust") });
  expect(stolen).toEqual([]);
  const trusting = await hostOf(
    url,
    { sendFrom: [send], trustedOrigins: [other.origin] },
    plainHost(),
  );
  await callTool(trusting, "send_file", { path: "my.txt", tool: "take" });
  expect(stolen).toEqual(["/put"]);
});

const base64Tool = {
  inputSchema: {
    type: "object",
    properties: { data: { type: "string", contentEncoding: "base64" } },
  },
};

test.each([
  ["agrees", true],
  ["declines", false],
])("a file goes in a base64 argument when the user %s: %s", async (_what, agree) => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const got: string[] = [];
  const { url } = await taking(base64Tool, ({ params }) => {
    got.push(params["arguments"].data);
    return { result: { content: [] } };
  });
  const host = createHost("legacy");
  host.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { agree } }));
  const client = await hostOf(url, { sendFrom: [send] }, host);
  const said = await callTool(client, "send_file", { path: "my.txt", tool: "take" });
  expect(said.isError).toBe(!agree);
  expect(got).toEqual(agree ? [content.toString("base64")] : []);
});

test.each([
  ["reach the host", 10, 2],
  ["of more than 64 KiB are left out", 70_000, 0],
])("blocks beside the text of a tool %s", async (_what, length, count) => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const blocks = [
    { type: "resource_link", uri: "files://a", name: "a" },
    { type: "resource", resource: { uri: "files://b", blob: "A".repeat(length) } },
  ];
  const { url } = await taking(base64Tool, () => ({
    result: { content: [{ type: "text", text: "done" }, ...blocks] },
  }));
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, plainHost());
  const params = { name: "send_file", arguments: { path: "my.txt", tool: "take" } };
  const { content: given } = await client.callTool(params);
  expect(given).toMatchObject([
    { text: expect.stringMatching(/done$/) },
    ...blocks.slice(0, count),
  ]);
  expect(given).toHaveLength(1 + count);
});

const base64 = content.toString("base64");
const dataUri = `data:text/plain;base64,${base64}`;
/** How servers say what an argument takes, and what it gets. */
test.each([
  ["says so in its description", "content", { description: "The file, Base64 encoded" }, base64],
  ["says so in its name", "file_b64", {}, base64],
  ["says nothing of base64", "content", { description: "The new text" }, undefined],
  [
    "may be null, as in Python",
    "content",
    { type: undefined, anyOf: [{ type: "string", format: "base64" }, { type: "null" }] },
    base64,
  ],
  [
    "may be null, and says so in words",
    "content",
    {
      type: undefined,
      oneOf: [{ type: "string", description: "as base64" }, { type: "null" }],
    },
    base64,
  ],
  ["takes a data URI", "data", { description: "URL or data URI of the file content" }, dataUri],
  ["shows a data URL", "image", { description: "such as data:image/png;base64,iVBO" }, dataUri],
  [
    "forbids the beginning of a data URI",
    "content",
    { description: "Base64, without data:text/plain;base64, before it" },
    base64,
  ],
])("a named argument that %s", async (_what, argument, schema, outcome) => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const got: string[] = [];
  const tool = {
    name: "take",
    inputSchema: { type: "object", properties: { [argument]: { type: "string", ...schema } } },
  };
  const { url } = await taking(tool, ({ params }) => {
    got.push(params["arguments"][argument]);
    return { result: { content: [] } };
  });
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, plainHost());
  const said = await callTool(client, "send_file", { path: "my.txt", tool: "take", argument });
  expect(said.text).toMatch(
    outcome === undefined
      ? /nothing says that the argument "\w+" of \w+ takes base64; pass as: "text"/
      : /as base64, to take/,
  );
  expect(got).toEqual(outcome === undefined ? [] : [outcome]);
});

test.each([
  ["a text", Buffer.from("a,b\nä,ö\n"), { content: { type: "string" } }, "a,b\nä,ö\n"],
  ["a text with a byte order mark", Buffer.from("\ufeffa"), { content: { type: "string" } }, "a"],
  ["a text or null", Buffer.from("a"), { content: { type: ["string", "null"] } }, "a"],
  [
    "an optional text in Python",
    Buffer.from("a"),
    { content: { anyOf: [{ type: "string" }, { type: "null" }] } },
    "a",
  ],
  ["bytes", Buffer.of(0xff, 0xfe), { content: { type: "string" } }, /not text in UTF-8/],
  [
    "a number",
    Buffer.from("5"),
    { content: { type: "number" } },
    /has no argument "content" that takes a text or a file; .* call the tool without send_file/,
  ],
  [
    "base64",
    Buffer.from("a"),
    { content: { type: "string", format: "byte" } },
    /does not take a plain/,
  ],
  [
    "another argument",
    Buffer.from("a"),
    { other: { type: "string" } },
    /has no argument "content"/,
  ],
])(
  "a plain argument gets the text of a file when told so: %s",
  async (_, file, properties, outcome) => {
    const { send } = makeFolders();
    writeFileSync(join(send, "my.txt"), file);
    const got: unknown[] = [];
    const tool = { name: "take", inputSchema: { type: "object", properties } };
    const { url } = await taking(tool, ({ params }) => {
      got.push(params["arguments"]?.content);
      return { result: { content: [] } };
    });
    const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 20 });
    const args = { path: "my.txt", tool: "take", argument: "content", as: "text" };
    const said = await callTool(client, "send_file", args);
    expect(got).toEqual(typeof outcome === "string" ? [outcome] : []);
    expect(said.text).toMatch(typeof outcome === "string" ? /, as text, to take/ : outcome);
  },
);

test("without a way to ask, a base64 argument needs the flag, and a small file", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  writeFileSync(join(send, "big.bin"), Buffer.alloc(5 * 2 ** 20));
  const { url } = await taking(base64Tool, () => ({ result: { content: [] } }));
  const shy = await hostOf(url, { sendFrom: [send] }, plainHost());
  const said = await callTool(shy, "send_file", { path: "my.txt", tool: "take" });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("--yes-below") });
  const bold = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, plainHost());
  expect((await callTool(bold, "send_file", { path: "my.txt", tool: "take" })).isError).toBe(false);
  expect((await callTool(bold, "send_file", { path: "big.bin", tool: "take" })).isError).toBe(true);
});

test.each([
  "../outside/secret",
  "/etc/passwd",
  ".ssh",
  "link",
  "folder/secret",
  "in",
  "absent",
  "",
  "a\u0000b",
])("no file is sent from the path %j", async (path) => {
  const { send, outside } = makeFolders();
  writeFileSync(join(outside, "secret"), "secret");
  writeFileSync(join(send, ".ssh"), "secret");
  symlinkSync(join(outside, "secret"), join(send, "link"));
  symlinkSync(outside, join(send, "folder"));
  mkdirSync(join(send, "in"));
  const calls: unknown[] = [];
  const { url } = await taking(base64Tool, ({ params }) => {
    calls.push(params);
    return { result: { content: [] } };
  });
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, plainHost());
  const said = await callTool(client, "send_file", { path, tool: "take" });
  expect(said.isError).toBe(true);
  expect(calls).toEqual([]);
});

test("through a link nobody learns what is behind it", async () => {
  const { send, outside } = makeFolders();
  writeFileSync(join(outside, "there"), "secret");
  mkdirSync(join(outside, "folder"));
  symlinkSync(outside, join(send, "folder"));
  for (const [name, target] of [
    ["file", "there"],
    ["nothing", "absent"],
  ] as const)
    symlinkSync(join(outside, target), join(send, name));
  const { url } = await taking(base64Tool, () => ({ result: { content: [] } }));
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, plainHost());
  const paths = ["there", "absent", "folder", "there/below", "absent/below", "folder/absent"].map(
    (name) => `folder/${name}`,
  );
  const said = new Set<string>();
  for (const path of [...paths, ...paths.map((each) => join(send, each)), "file", "nothing"])
    said.add((await callTool(client, "send_file", { path, tool: "take" })).text);
  expect([...said]).toEqual([expect.stringContaining("is a link")]);
});

test("files of the user go whatever their names begin with", async () => {
  const { send } = makeFolders();
  const { url } = await taking(base64Tool, () => ({ result: { content: [] } }));
  const client = await hostOf(url, { sendFrom: [send], agreedBytes: 2 ** 30 }, plainHost());
  for (const name of ["-rf", "~notes.txt"]) {
    writeFileSync(join(send, name), "mine");
    const said = await callTool(client, "send_file", { path: name, tool: "take" });
    expect(said).toMatchObject({ isError: false, facts: { name } });
  }
});

for (const revision of ["legacy", "modern"] as const)
  test(`${revision} host: a server that asks for a file gets the one that send_file names`, async () => {
    const { send } = makeFolders();
    writeFileSync(join(send, "my.txt"), content);
    const { url, got } = await uploadPlace();
    const client = await hostOf(asking(url, "call"), { sendFrom: [send] }, revision);
    const said = await callTool(client, "send_file", { path: "my.txt", tool: "take" });
    expect(said).toMatchObject({ isError: false, facts: { way: "asked" } });
    const sha256 = createHash("sha256").update(content).digest("hex");
    expect(said.text).toContain(sha256);
    expect(got).toHaveLength(1);
    expect(got[0]).toContain(content.toString());
  });

test("a server that asks for a file in a call of the host gets the one whose path the user types", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const { url, got } = await uploadPlace();
  const host = createHost("legacy");
  host.setRequestHandler("elicitation/create", () => ({
    action: "accept",
    content: { path: "my.txt" },
  }));
  const client = await hostOf(asking(url, "call"), { sendFrom: [send] }, host);
  expect((await callTool(client, "take")).text).toContain("accept");
  expect(got[0]).toContain(content.toString());
});

test("the server is told what the model can do if the user cannot be asked, and gets nothing", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const { url, got } = await uploadPlace();
  const client = await hostOf(asking(url, "call"), { sendFrom: [send] }, plainHost());
  expect((await callTool(client, "take")).text).toContain("send_file");
  expect(got).toEqual([]);
});

test("a server that asks on its own gets nothing", async () => {
  const { send, save } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const { url, got } = await uploadPlace();
  const client = await hostOf(
    asking(url, "start"),
    { sendFrom: [send], saveTo: save },
    plainHost(),
  );
  await client.listTools();
  expect(got).toEqual([]);
  expect(readdirSync(save)).toEqual(["spooled"]);
});

test("a server of 2026-07-28 asks for a file in its result, and gets it in the next call", async () => {
  const { send } = makeFolders();
  writeFileSync(join(send, "my.txt"), content);
  const place = await uploadPlace();
  const { url, metas } = await askingInResults(place.url);
  const options = { sendFrom: [send], trustedOrigins: [place.url.origin] };
  const client = await hostOf(url, options, "modern");
  const said = await callTool(client, "send_file", { path: "my.txt", tool: "take" });
  expect(said).toMatchObject({ isError: false, facts: { way: "asked" } });
  expect(said.text).toContain("s1");
  expect(place.got).toHaveLength(1);
  const capabilities = metas[0]!["io.modelcontextprotocol/clientCapabilities"];
  expect(capabilities.elicitation).toMatchObject({ form: {}, binary: {} });
  expect(metas[0]).not.toHaveProperty("dev.sluice/gives-file");
});
