import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { Client, type Progress } from "@modelcontextprotocol/client";
import { backgroundClock } from "@sluice/core/internal";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { createHost } from "./bridged.ts";
import {
  callTool,
  handWritten,
  hostOf,
  listening,
  makeFolders,
  stateIn,
  type McpAnswer,
} from "./filing.ts";
import { blob, createLargeServer, text } from "./large-server.ts";

const serving = {
  command: process.execPath,
  args: [inject("programs")["packages/bridge/test/serving-process.ts"]!],
};
/** The same over HTTP, in this process. */
let servingHere: URL;
beforeAll(async () => {
  const handle = toNodeHandler(createMcpHandler(createLargeServer));
  servingHere = await listening(
    (request, response) =>
      void handle(request as NodeIncomingMessageLike & typeof request, response),
    afterAll,
  );
});

const uri = "large://a/blob.bin";
const hash = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

for (const revision of ["legacy", "modern"] as const) {
  test(`${revision} host: a resource of a server without streaming is saved by read, and listed`, async () => {
    const { save } = makeFolders();
    const behind = revision === "legacy" ? serving : servingHere;
    const client = await hostOf(behind, { saveTo: save }, revision);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["report", "save_resource", "list_saved"]);
    const saved = await callTool(client, "save_resource", { uri, path: "in/blob.bin" });
    const path = join(save, "in", "blob.bin");
    expect(saved.facts).toMatchObject({
      path,
      size: blob.length,
      sha256: hash(blob),
      verified: "none",
    });
    expect(readFileSync(path).equals(blob)).toBe(true);
    // what the spool wrote on the way is gone
    expect(readdirSync(join(save, "spooled"))).toEqual([]);
    expect((await callTool(client, "list_saved")).text).toContain(path);
  });

  test(`${revision} host: a large result becomes a file`, async () => {
    const { save } = makeFolders();
    const behind = revision === "legacy" ? serving : servingHere;
    const client = await hostOf(behind, { saveTo: save }, revision);
    const said = await callTool(client, "report");
    expect(said.length).toBeLessThan(2_048);
    const [name] = readdirSync(join(save, "spooled"));
    expect(readFileSync(join(save, "spooled", name!), "utf8")).toBe(text);
    expect(said.text).toContain(name);
    expect((await callTool(client, "list_saved")).facts["files"]).toHaveLength(1);
  });
}

test("a host of SDK v1 over stdio saves through the command", { tags: "slow" }, async () => {
  const { save } = makeFolders();
  const main = inject("programs")["packages/cli/src/main.ts"]!;
  const args = [
    main,
    "bridge",
    "--save-to",
    save,
    "--inline",
    "1K",
    "--",
    serving.command,
    ...serving.args,
  ];
  const client = new ClientV1({ name: "host", version: "1" });
  await client.connect(new StdioV1({ command: process.execPath, args, env: stateIn({ save }) }));
  await client.listTools();
  const saved = await client.callTool({ name: "save_resource", arguments: { uri } });
  expect(saved.isError).toBeFalsy();
  expect(readFileSync(join(save, "blob.bin")).equals(blob)).toBe(true);
  await client.close();
});

test("without --spool results stay as they are", async () => {
  const { save } = makeFolders();
  const client = await hostOf(servingHere, { saveTo: save, spool: false });
  expect((await callTool(client, "report")).length).toBeGreaterThan(200_000);
  await callTool(client, "save_resource", { uri });
  expect(readdirSync(save)).toEqual(["blob.bin"]);
});

describe("a folder with a link to another one", () => {
  const { save, outside } = makeFolders(afterAll);
  let client: Client;
  beforeAll(async () => {
    symlinkSync(outside, join(save, "link"));
    symlinkSync(join(outside, "new.bin"), join(save, "new.bin"));
    writeFileSync(join(save, "there.bin"), "mine");
    client = await hostOf(servingHere, { saveTo: save }, "legacy", afterAll);
  });

  test.each([
    "../out.bin",
    "/etc/out.bin",
    "a/../../out.bin",
    ".hidden",
    "a/.git/config",
    "a\\b",
    "a//b",
    "link/out.bin",
    "there.bin",
    "a\u0000b",
    `${"a/".repeat(40)}b`,
  ])("nothing is written to the path %j", async (path) => {
    const said = await callTool(client, "save_resource", { uri, path });
    expect(said.isError).toBe(true);
    expect(readdirSync(outside)).toEqual([]);
    expect(readFileSync(join(save, "there.bin"), "utf8")).toBe("mine");
    expect(existsSync(join(save, ".hidden"))).toBe(false);
  });

  test("a link below a named folder is not saved through, for links of files, too", async () => {
    expect((await callTool(client, "save_resource", { uri, path: "new.bin" })).isError).toBe(true);
    expect(readdirSync(outside)).toEqual([]);
  });
});

const bytes = Buffer.alloc(200_000, "0123456789abcdef ");

test("a link of the server's own origin is saved; the server says its name", async () => {
  const { save } = makeFolders();
  const url = await handWritten(
    () => undefined,
    (_request, response) => {
      const headers = {
        "content-length": bytes.length,
        "content-disposition": 'attachment; filename="../../re.bin"',
        etag: '"1"',
      };
      response.writeHead(200, headers).end(bytes);
    },
  );
  const client = await hostOf(url, { saveTo: save });
  const said = await callTool(client, "save_resource", { uri: new URL("/d/1", url).href });
  expect(said.facts).toMatchObject({
    path: join(save, "re.bin"),
    sha256: hash(bytes),
    verified: "length",
  });
});

test.each([
  ["a blank", "/d/Q3 report.bin", "Q3 report.bin"],
  ["letters beyond ASCII", "/d/Bericht März €.bin", "Bericht März €.bin"],
  ["percent signs, as URLs have them", "/d/a%20b.bin", "a b.bin"],
])("a link with %s is saved", async (_, path, name) => {
  const { save } = makeFolders();
  const asked: unknown[] = [];
  const url = await handWritten(
    () => undefined,
    (request, response) => {
      asked.push(request.url);
      response.end(bytes);
    },
  );
  const client = await hostOf(url, { saveTo: save });
  const said = await callTool(client, "save_resource", { uri: `${url.origin}${path}` });
  expect(said.facts).toMatchObject({ path: join(save, name), sha256: hash(bytes) });
  expect(asked).toEqual([new URL(path, url).pathname]);
});

test.each([
  ["a host beyond ASCII", "http://lоcalhost/d"],
  ["a control character", "/d/a\u0085b"],
  ["a sign that turns text around", "/d/\u202egpj"],
])("a link with %s is refused before it is asked for", async (_, link) => {
  const { save } = makeFolders();
  let asked = 0;
  const url = await handWritten(
    () => undefined,
    (_request, response) => {
      asked++;
      response.end(bytes);
    },
  );
  const client = await hostOf(url, { saveTo: save });
  const args = { uri: link.startsWith("/") ? url.origin + link : link, path: "x" };
  expect((await callTool(client, "save_resource", args)).isError).toBe(true);
  expect(asked).toBe(0);
});

test("a link of another origin is refused before it is asked for, also when redirected to", async () => {
  const { save } = makeFolders();
  let asked = 0;
  const inner = await listening((_request, response) => {
    asked++;
    response.end("secret");
  });
  const url = await handWritten(
    () => undefined,
    (_request, response) => void response.writeHead(302, { location: inner.href }).end(),
  );
  const client = await hostOf(url, { saveTo: save });
  for (const link of [inner.href, new URL("/d/1", url).href]) {
    const said = await callTool(client, "save_resource", { uri: link, path: "x" });
    expect(said.isError).toBe(true);
    expect(said.text).toMatch(/leads to \S+, not .*; .* starts the bridge with --trust/);
    expect(said.text).not.toContain("the server gave");
  }
  expect(asked).toBe(0);
  expect(existsSync(join(save, "x"))).toBe(false);
});

test("a server without resources is said to have none, and a URI without a path gives the name", async () => {
  const { save } = makeFolders();
  const none = await hostOf(await handWritten(() => undefined), { saveTo: save });
  const said = await callTool(none, "save_resource", { uri: "acme://big.bin" });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("has no resources") });
  const url = await handWritten(({ method, params }) =>
    method === "resources/read"
      ? { result: { contents: [{ uri: (params as { uri: string }).uri, text: "it" }] } }
      : undefined,
  );
  const client = await hostOf(url, { saveTo: save });
  const saved = await callTool(client, "save_resource", { uri: "acme://big.bin" });
  expect(saved.facts).toMatchObject({ path: join(save, "big.bin") });
});

test("an origin that the user named is asked", async () => {
  const { save } = makeFolders();
  const other = await listening((_request, response) => {
    response.writeHead(200, { "content-length": bytes.length }).end(bytes);
  });
  const url = await handWritten(() => undefined);
  const client = await hostOf(url, { saveTo: save, trustedOrigins: [other.origin] });
  await callTool(client, "save_resource", { uri: `${other.href}a.bin` });
  expect(readFileSync(join(save, "a.bin")).equals(bytes)).toBe(true);
});

const blobOf =
  (contents: unknown): McpAnswer =>
  ({ method }) =>
    method === "resources/read" ? { result: { contents } } : undefined;

test.each<[string, McpAnswer]>([
  [
    "several contents",
    blobOf([
      { uri, text: "a" },
      { uri, text: "b" },
    ]),
  ],
  ["another resource", blobOf([{ uri: "other://x", text: "a" }])],
  ["no contents", blobOf([])],
  ["invalid contents", blobOf("x")],
  ["malformed base64", blobOf([{ uri, blob: "a" }])],
  ["long malformed base64", blobOf([{ uri, blob: `${"QUJD".repeat(50_000)}!` }])],
  ["neither text nor blob", blobOf([{ uri, text: 5 }])],
  ["more than there may be", blobOf([{ uri, text: "a".repeat(2_000_000) }])],
])("a server that answers with %s writes nothing", async (_what, answer) => {
  const { save, outside } = makeFolders();
  const url = await handWritten(answer);
  const client = await hostOf(url, { saveTo: save, maxSaveBytes: 1_000_000 });
  const said = await callTool(client, "save_resource", { uri, path: "x.bin" }).catch(
    (error: Error) => ({ isError: true, text: error.message }),
  );
  expect(said.isError).toBe(true);
  expect(said.text.length).toBeLessThan(1_100);
  expect(readdirSync(save).filter((name) => name !== "spooled")).toEqual([]);
  expect(readdirSync(join(save, "spooled"))).toEqual([]);
  expect(readdirSync(outside)).toEqual([]);
});

test("a body without an end stops at the largest size", async () => {
  const { save } = makeFolders();
  const url = await handWritten(
    () => undefined,
    (_request, response) => {
      response.writeHead(200);
      const more = (): boolean => response.write(bytes);
      response.on("drain", more);
      while (more());
    },
  );
  const client = await hostOf(url, { saveTo: save, maxSaveBytes: 1_000_000 });
  const said = await callTool(client, "save_resource", { uri: new URL("/d", url).href });
  expect(said.isError).toBe(true);
  expect(said.text).toContain("1000000");
  expect(readdirSync(save)).toEqual(["spooled"]);
});

test("a body without a length stops where the user would have been asked", async () => {
  const { save } = makeFolders();
  const url = await handWritten(
    () => undefined,
    (_request, response) => {
      response.writeHead(200);
      response.write(bytes);
      setTimeout(() => response.end(bytes), 50);
    },
  );
  const client = await hostOf(url, { saveTo: save, agreedBytes: 100_000 });
  const said = await callTool(client, "save_resource", { uri: new URL("/d", url).href });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("--yes-below") });
  expect(readdirSync(save)).toEqual(["spooled"]);
});

test("a wrong digest and a short body leave no file", { tags: "slow" }, async () => {
  const { save } = makeFolders();
  const url = await handWritten(
    () => undefined,
    ({ url: path }, response) => {
      const digest = `sha-256=:${createHash("sha256").update("other").digest("base64")}:`;
      if (path === "/digest")
        response.writeHead(200, { "content-length": 5, "repr-digest": digest }).end("hello");
      else {
        response.writeHead(200, { "content-length": 50 }).write("hello");
        setTimeout(() => response.destroy(), 20);
      }
    },
  );
  const client = await hostOf(url, { saveTo: save });
  const digest = await callTool(client, "save_resource", { uri: new URL("/digest", url).href });
  expect(digest).toMatchObject({ isError: true, text: expect.stringContaining("SHA-256") });
  const short = await callTool(client, "save_resource", { uri: new URL("/short", url).href });
  expect(short.isError).toBe(true);
  expect(readdirSync(save)).toEqual(["spooled"]);
});

test("answers that no call waits for write nothing", async () => {
  const { save } = makeFolders();
  const long = "x".repeat(100_000);
  const url = await handWritten(({ id, method }, response) => {
    if (method !== "tools/call") return { result: { tools: [] } };
    response.writeHead(200, { "content-type": "text/event-stream" });
    const say = (message: object) =>
      response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
    for (let count = 0; count < 3; count++)
      say({ id: 1_000 + count, result: { content: [{ type: "text", text: long }] } });
    say({ method: "notifications/message", params: { level: "info", data: long } });
    say({ id, result: { content: [{ type: "text", text: "done" }] } });
    response.end();
    return undefined;
  });
  const client = await hostOf(url, { saveTo: save });
  expect((await callTool(client, "any")).text).toBe("done");
  expect(readdirSync(join(save, "spooled"))).toEqual([]);
});

test(
  "thousands of results in one answer make no more files than there may be",
  { tags: "slow" },
  async () => {
    const { save } = makeFolders();
    const url = await handWritten(({ method }) => {
      if (method !== "tools/call") return { result: { tools: [] } };
      const content = Array.from({ length: 2_000 }, () => ({ type: "text", text: "x".repeat(40) }));
      return { result: { content } };
    });
    const client = await hostOf(url, { saveTo: save, inlineBytes: 32 });
    await expect(callTool(client, "any")).rejects.toThrow(/256/);
    expect(readdirSync(join(save, "spooled"))).toEqual([]);
  },
);

test("a tool of the server keeps its name", async () => {
  const { save } = makeFolders();
  const url = await handWritten(({ method, params }) => {
    const tool = (name: string) => ({ name, inputSchema: { type: "object" } });
    if (method === "tools/list" && params["cursor"] === undefined)
      return { result: { tools: [tool("save_resource")], nextCursor: "2" } };
    if (method === "tools/list") return { result: { tools: [tool("list_saved")] } };
    return { result: { content: [{ type: "text", text: `server: ${params["name"]}` }] } };
  });
  const client = await hostOf(url, { saveTo: save });
  expect((await callTool(client, "save_resource")).text).toBe("server: save_resource");
  expect((await callTool(client, "list_saved")).text).toBe("server: list_saved");
  expect((await callTool(client, "bridge_list_saved")).text).toBe("No file was saved.");
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toContain("bridge_save_resource");
});

test("a server without tools gets them", async () => {
  const { save } = makeFolders();
  const url = await handWritten(() => undefined);
  const client = await hostOf(url, { saveTo: save });
  expect((await client.listTools()).tools).toHaveLength(2);
});

for (const revision of ["legacy", "modern"] as const)
  test.each([
    ["says yes", { action: "accept", content: { agree: true } }, true],
    ["says no", { action: "accept", content: { agree: false } }, false],
    ["closes the form", { action: "cancel" }, false],
  ])(
    `${revision} host: a large file is saved when the user %s: %j`,
    async (_what, answer, isSaved) => {
      const { save } = makeFolders();
      const host = createHost(revision);
      const asked: string[] = [];
      host.setRequestHandler("elicitation/create", ({ params }) => {
        asked.push(params.message);
        return answer as never;
      });
      const client = await hostOf(servingHere, { saveTo: save, agreedBytes: 1_000 }, host);
      const said = await callTool(client, "save_resource", { uri });
      expect(asked).toEqual([expect.stringContaining("300000")]);
      expect(said.isError).toBe(!isSaved);
      expect(existsSync(join(save, "blob.bin"))).toBe(isSaved);
    },
  );

test("a host that wants to hear of progress hears of it while its user is asked", async () => {
  const { save } = makeFolders();
  const schedule = backgroundClock.schedule.bind(backgroundClock);
  // a hundred times as fast
  vi.spyOn(backgroundClock, "schedule").mockImplementation((work, ms) =>
    schedule(work, ms === 15_000 ? 150 : ms),
  );
  onTestFinished(() => void vi.restoreAllMocks());
  const host = createHost("legacy");
  let agree = (): void => {};
  host.setRequestHandler("elicitation/create", async () => {
    await new Promise<void>((resolve) => (agree = resolve));
    return { action: "accept", content: { agree: true } };
  });
  const client = await hostOf(servingHere, { saveTo: save, agreedBytes: 1_000 }, host);
  const told: Progress[] = [];
  const name = "save_resource";
  const saved = client.callTool(
    { name, arguments: { uri } },
    { onprogress: (progress) => void told.push(progress) },
  );
  await vi.waitFor(() => expect(told.length).toBeGreaterThan(2), 10_000);
  agree();
  expect(await saved).not.toMatchObject({ isError: true });
  expect(told[0]).toMatchObject({ message: "The call goes on" });
  const values = told.map(({ progress }) => progress);
  expect(values).toEqual([...new Set(values)].toSorted((a, b) => a - b));
});

test("a host that cannot ask is told of the flag", async () => {
  const { save } = makeFolders();
  const client = await hostOf(
    servingHere,
    { saveTo: save, agreedBytes: 1_000 },
    new Client({ name: "h", version: "1" }),
  );
  const said = await callTool(client, "save_resource", { uri });
  expect(said).toMatchObject({ isError: true, text: expect.stringContaining("--yes-below") });
  mkdirSync(join(save, "x"));
  expect(existsSync(join(save, "blob.bin"))).toBe(false);
});

test("a resource of the Everything server is saved as it is read", { tags: "slow" }, async () => {
  const { save } = makeFolders();
  const require = createRequire(import.meta.url);
  const entry = require.resolve("@modelcontextprotocol/server-everything/package.json");
  const args = [join(dirname(entry), "dist", "index.js"), "stdio"];
  const client = await hostOf({ command: process.execPath, args }, { saveTo: save });
  const { resources } = await client.listResources();
  const [first] = resources;
  const { contents } = await client.readResource({ uri: first!.uri });
  const [content] = contents;
  const whole =
    "text" in content! ? Buffer.from(content.text) : Buffer.from(content!.blob, "base64");
  const said = await callTool(client, "save_resource", { uri: first!.uri, path: "first.txt" });
  expect(said).toMatchObject({ isError: false, facts: { size: whole.length } });
  expect(readFileSync(join(save, "first.txt")).equals(whole)).toBe(true);
  const { tools } = await client.listTools();
  expect(tools.length).toBeGreaterThan(5);
});
