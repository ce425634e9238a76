// `sluice get` on servers that know nothing of streaming.
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  expect,
  onTestFinished,
  test,
  vi,
} from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere, type RunHereOptions } from "./run-here.ts";
import type { Run } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000 });

const blob = randomBytes(70_001);
const text = "zwölf Boxkämpfer\r\n";
let official = "";
let folder = "";
const servers: Server[] = [];
beforeAll(async () => {
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "plain", version: "1.0.0" });
    server.registerResource(
      "text",
      "plain://a/note.txt",
      { size: Buffer.byteLength(text) },
      (uri) => ({
        contents: [{ uri: uri.href, text }],
      }),
    );
    server.registerResource("blob", "plain://a/data.bin", {}, (uri) => ({
      contents: [{ uri: uri.href, blob: blob.toString("base64") }],
    }));
    return server;
  });
  const handle = toNodeHandler(mcp);
  official = await listen((request, response) => void handle(request as never, response));
});
afterAll(() => {
  for (const server of servers) server.close().closeAllConnections();
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-read-"));
});
afterEach(() => rm(folder, { recursive: true }));

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  servers.push(server);
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

/** A server of the session revision that is not of an official SDK; `error` is what it says of a method it does not know. */
function listenRaw(
  results: Readonly<Record<string, object>>,
  error: object = { code: -32602, message: "Invalid request parameters", data: "" },
): Promise<string> {
  const known: Readonly<Record<string, object>> = {
    initialize: {
      protocolVersion: "2025-11-25",
      capabilities: { resources: {} },
      serverInfo: { name: "raw", version: "1" },
    },
    ...results,
  };
  return listen((request, response) => {
    response.setHeader("content-type", "application/json");
    if (request.method !== "POST") return void response.writeHead(405).end();
    return void answer(request).then((body) => response.writeHead(body ? 200 : 202).end(body));
  });

  async function answer(request: IncomingMessage): Promise<string | undefined> {
    const { id, method } = (await json(request)) as { id?: number; method: string };
    if (id === undefined) return undefined;
    const result = known[method];
    return JSON.stringify({ jsonrpc: "2.0", id, ...(result ? { result } : { error }) });
  }
}

const one = (content: object): object => ({ contents: [{ uri: "raw://x/a.bin", ...content }] });
const listed = (size?: number): object => ({
  resources: [{ uri: "raw://x/a.bin", name: "a", ...(size !== undefined && { size }) }],
});

function get(args: readonly string[], options: RunHereOptions = {}): Promise<Run> {
  return runHere(["get", ...args], { cwd: folder, ...options });
}

test.each([
  ["text", "plain://a/note.txt", Buffer.from(text), "note.txt"],
  ["a blob", "plain://a/data.bin", blob, "data.bin"],
])(
  "%s of a server without streaming is read, and that is said [SEP-2532/plan/read-fallback]",
  async (_, uri, bytes, name) => {
    const { status, stdout, stderr } = await get([official, uri]);
    expect(stderr).toContain(`does not stream ${uri}: read in one message (resources/read)`);
    expect(stderr).toContain(createHash("sha256").update(bytes).digest("hex"));
    expect([status, stdout]).toEqual([0, `${name}\n`]);
    expect(bytes.equals(await readFile(join(folder, name)))).toBe(true);
    const again = await get([official, uri]);
    expect([again.status, again.stdout]).toEqual([0, `${name}\n`]);
    expect(again.stderr).toContain(`${name} is there already, and the same`);
    await writeFile(join(folder, name), "mine");
    const refused = await get([official, uri]);
    expect(refused.status).toBe(exitCodes.target.status);
    expect(await readFile(join(folder, name), "utf8")).toBe("mine");
  },
);

test("several are read one by one, and the machine's line names the way", async () => {
  const args = [official, "plain://a/note.txt", "plain://a/data.bin", "--json"];
  const { status, stdout } = await get(args);
  expect(status).toBe(0);
  expect(
    stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toMatchObject([
    { mode: "read", size: Buffer.byteLength(text), verified: "length", resumedBytes: 0 },
    { mode: "read", size: blob.length, verified: "none" },
  ]);
  expect((await readdir(folder)).toSorted()).toEqual(["data.bin", "note.txt"]);
});

test.each([
  ["method not found", { code: -32601, message: "Method not found" }],
  ["invalid parameters", { code: -32602, message: "Invalid request parameters", data: "" }],
  ["an invalid request", { code: -32600, message: "Invalid Request" }],
  ["an internal error", { code: -32603, message: "Internal error" }],
])("a server that answers an unknown method with %s is read", async (_, error) => {
  const results = { "resources/read": one({ text: "a" }), "resources/list": listed(1) };
  const url = await listenRaw(results, error);
  expect(await get([url, "raw://x/a.bin"])).toMatchObject({ status: 0, stdout: "a.bin\n" });
});

test.each([
  ["another size than the one in the list", one({ text: "abc" }), 4, exitCodes.integrity],
  ["malformed base64", one({ blob: "abc?" }), 3, exitCodes.refused],
  ["another resource", { contents: [{ uri: "raw://x/b", text: "a" }] }, 1, exitCodes.refused],
  ["no content", { contents: [] }, 1, exitCodes.refused],
  [
    "two contents",
    {
      contents: [
        { uri: "raw://x/a.bin", text: "a" },
        { uri: "raw://x/a.bin", text: "b" },
      ],
    },
    1,
    exitCodes.refused,
  ],
  ["more than one message holds", one({ text: "a".repeat(2 ** 24) }), 2 ** 24, exitCodes.refused],
])("%s is refused, and nothing is saved", async (_, read, size, { status }) => {
  const url = await listenRaw({ "resources/read": read, "resources/list": listed(size) });
  const run = await get([url, "raw://x/a.bin"]);
  expect(run.stderr).toMatch(/\nsluice: .+; .+\n$/);
  expect([run.status, run.stdout, await readdir(folder)]).toEqual([status, "", []]);
});

test("a resource that is not there is that on every server", async () => {
  for (const url of [official, await listenRaw({})]) {
    const { status, stderr } = await get([url, "raw://x/nothing"]);
    expect(stderr).toContain("has no resource");
    expect(status).toBe(exitCodes.notFound.status);
  }
});

test("a read is limited by --max-size [SEP-2532/plan/cli-max-size]", async () => {
  const run = await get([official, "plain://a/data.bin", "--max-size", "70000"]);
  expect(run.stderr).toContain("has 70001 bytes, more than 70000; raise --max-size");
  expect([run.status, await readdir(folder)]).toEqual([exitCodes.refused.status, []]);
});

test.each([
  ["Busy, try again later", { code: -32603, data: { reason: "busy" } }, exitCodes.network],
  ["Resource not found", { code: -32002 }, exitCodes.notFound],
  ["the disk is gone", { code: -32603 }, exitCodes.failed],
  ["Invalid params", { code: -32602, data: { reason: "invalid" } }, exitCodes.usage],
])(
  "an error that a server answers is told in its words: %s",
  async (message, error, { status }) => {
    const url = await listenRaw({}, { message, ...error });
    const run = await runHere(["ls", url]);
    expect(run.stderr).toBe(`sluice: ${url} answered: ${message}; its log says why\n`);
    expect(run).toMatchObject({ status, stdout: "" });
  },
);

test("a server that is busy is told with the seconds that it says", async () => {
  const message = "Busy, try again later. Wait 12 s";
  const data = { reason: "busy", retryAfterMs: 11_500 };
  const url = await listenRaw({}, { code: -32603, message, data });
  const run = await runHere(["ls", url]);
  expect(run.stderr).toBe(
    `sluice: ${url} answered: ${message}; wait 12 s and run the same command again\n`,
  );
});

test("a resource that a server denies needs a token or a right, and no look into its log", async () => {
  const error = { code: -32603, message: "Access denied", data: { reason: "forbidden" } };
  const url = await listenRaw({}, error);
  const run = await runHere(["ls", url]);
  expect(run.stderr).toMatch(/ answered: Access denied; ask the server's operator for access\n$/);
  expect(run.status).toBe(exitCodes.denied.status);
});

test("a redirect of the endpoint that cannot be followed is called one", async () => {
  const server = createServer((_request, response) => {
    response.writeHead(301, { location: "/mcp/" }).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const run = await runHere(["ls", `http://127.0.0.1:${port}/mcp`]);
  expect(run.stderr).toMatch(
    /answers HTTP 301, a redirect \(sluice doctor tells where it leads\);/,
  );
});

test("a service that knows no method of MCP is no MCP server", async () => {
  const error = { code: -32601, message: "unknown method" };
  const url = await listenRaw({ initialize: undefined as never }, error);
  const run = await runHere(["ls", url]);
  expect(run.stderr).toMatch(/does not speak MCP \(.*; check that it is the address/);
  expect(run.status).toBe(exitCodes.refused.status);
});

test("a server without resources and tools says so, and nothing but data goes to standard output", async () => {
  const handle = toNodeHandler(
    createMcpHandler(() => new McpServer({ name: "empty", version: "1.0.0" })),
  );
  const url = await listen((request, response) => void handle(request as never, response));
  const { status } = exitCodes.refused;
  for (const [args, said] of [
    [["ls", url], "has no resources"],
    [["get", url, "plain://a/note.txt"], "has no resources"],
    [["put", url, import.meta.filename], "has no tool that takes a file"],
  ] as const) {
    const run = await runHere(args, { cwd: folder });
    expect(run.stderr).toContain(said);
    expect(run).toMatchObject({ status, stdout: "" });
  }
});
