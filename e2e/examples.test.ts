// @module-tag slow
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { streamResource } from "@sluice/client";
import { formatKey, generateKey } from "@sluice/core";
import { createMemoryBackend } from "@sluice/storage";
import { request } from "undici";
import { afterEach, expect, inject, test, vi } from "vitest";
import { askForeign } from "../packages/transport-http/test/foreign-requests.ts";
import { changeProgram, moveExample } from "./bed/changed-program.ts";
import { connect, sdkNames } from "./bed/clients.ts";
import { freePort, untilAnswered } from "./bed/listen.ts";
import { hasRedis, startRedis } from "./bed/redis.ts";
import { connectSender } from "./bed/senders.ts";
import { shutDown, startProcess } from "./examples/many-processes.ts";

const programs = inject("programs");
/** Of `createSluice`, and of the clients of the docs. */
const defaultEndpoint = "http://127.0.0.1:2532/mcp";

let folder: string | undefined;
let server: ChildProcess | undefined;
/** What `server` printed. */
let output = "";
afterEach(async () => {
  if (server && server.exitCode === null && server.kill()) await once(server, "exit");
  if (folder !== undefined) await rm(folder, { recursive: true });
  folder = undefined;
});

test.each([
  ["the README", "first-server.ts", "first-client.ts", "Listening at "],
  ["the READMEs of the packages", "server.ts", "client.ts", ""],
  ["the README, with SDK v1,", "first-server.ts", "sdk1-client.ts", "Listening at "],
])("the server and the client of %s move a file", async (_, serving, saving, printed) => {
  folder = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  await mkdir(join(folder, "files"));
  await mkdir(join(folder, "downloads"));
  const content = randomBytes(3_000_000);
  await writeFile(join(folder, "files/big.bin"), content);

  const endpoint = await start(`e2e/examples/${serving}`, folder);

  const client = await changeProgram(`e2e/examples/${saving}`, defaultEndpoint, endpoint);
  const settings = { cwd: folder, timeout: 60_000 };
  const { stdout } = await promisify(execFile)(process.execPath, [client], settings);

  expect(stdout).toContain(createHash("sha256").update(content).digest("hex"));
  expect(content.equals(await readFile(join(folder, "downloads/big.bin")))).toBe(true);
  expect(output).toBe(printed && `${printed}${endpoint}\n`);
});

test.each(sdkNames)("the upload server of the docs asks a client of %s for a file", async (sdk) => {
  folder = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  await mkdir(join(folder, "files"));
  await mkdir(join(folder, "uploads"));
  const path = join(folder, "poem.txt");
  await writeFile(path, "one\ntwo\nthree\n");
  const endpoint = await start("e2e/examples/upload-server.ts", folder);
  const client = await connectSender(sdk, endpoint, {
    onFilesRequested: ({ fields }) => ({
      action: "accept",
      files: { [fields[0]!.name]: [path] },
    }),
  });
  const { content } = await client.callTool({ name: "count_lines" });
  expect(content).toEqual([{ type: "text", text: "It has 3 lines." }]);
  await client.close();
});

test("the upload server of the docs shows its page to a client of SDK v1 that opens links alone", async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  await mkdir(join(folder, "files"));
  await mkdir(join(folder, "uploads"));
  const endpoint = await start("e2e/examples/upload-server.ts", folder);
  const capabilities = { elicitation: { url: {} } };
  const client = new Client({ name: "links", version: "1" }, { capabilities });
  let page = "";
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    const headers = { accept: "text/html" }; // as a browser; a program gets the state of the slot
    const response = await fetch((params as { url: string }).url, { headers });
    page = await response.text();
    return { action: "cancel" };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { content } = await client.callTool({ name: "count_lines" });
  expect(content).toEqual([
    { type: "text", text: "The user closed the request without sending a file." },
  ]);
  expect(page).toContain("Which text?");
  await client.close();
});

/** Makes the folders of a server, with these files to serve. */
async function makeFolders(files: Readonly<Record<string, string>>): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  folder = made;
  for (const name of ["files/invoices", "uploads", ...Object.keys(files).map(dirname)])
    await mkdir(join(made, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(made, name), text);
  return made;
}

interface Answer {
  readonly content: readonly { readonly text: string }[];
  readonly structuredContent?: Readonly<Record<string, string>>;
}

async function callTool(client: Client, name: string, args: object = {}): Promise<Answer> {
  const result = await client.callTool({ name, arguments: { ...args } });
  return result as unknown as Answer;
}

async function connectHost(transport: Transport): Promise<Client> {
  const client = new Client({ name: "host", version: "1" });
  await client.connect(transport);
  return client;
}

test("the server of the docs in an app of SDK v1 hands a PDF out and takes a table in", async () => {
  const pdf = Buffer.concat([Buffer.from("%PDF-1.4\n"), randomBytes(300_000)]);
  const made = await makeFolders({});
  await writeFile(join(made, "files/report.pdf"), pdf);
  const endpoint = await start("e2e/examples/sdk1-server.ts", made);
  const client = await connectHost(new StreamableHTTPClientTransport(new URL(endpoint)));

  const uri = "files://local/report.pdf";
  const { structuredContent: link } = await callTool(client, "get_download_link", { uri });
  const isReport = (bytes: ArrayBuffer): boolean => pdf.equals(Buffer.from(bytes));
  expect(isReport(await (await fetch(link!["download_url"]!)).arrayBuffer())).toBe(true);

  const { structuredContent: asked } = await callTool(client, "count_rows");
  const { upload_url, upload_id } = asked!;
  const body = Buffer.from("month,total\n2026-11,7\n");
  await fetch(`${upload_url}sales.csv`, { method: "PUT", body });
  const { content } = await callTool(client, "count_rows", { upload_id });
  expect(content).toEqual([{ type: "text", text: "It has 2 rows." }]);
  await client.close();

  const legacy = sdkNames.filter((name) => name !== "SDK v2, modern");
  for (const sdk of legacy) {
    const streaming = await connect(sdk, endpoint);
    const stream = await streamResource(streaming, uri);
    expect(isReport(await new Response(stream.body).arrayBuffer())).toBe(true);
    await streaming.close();
  }
});

test("rejects foreign pages in the app of the docs before its parsers", async () => {
  const endpoint = await start("e2e/examples/sdk1-server.ts", await makeFolders({}));
  const post = (body: string, headers: Readonly<Record<string, string>>): Promise<Response> =>
    fetch(endpoint, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    });
  const foreign = await post("{broken", { origin: "https://evil.example" });
  expect([foreign.status, await foreign.text()]).toEqual([
    403,
    expect.not.stringContaining("JSON"),
  ]);
  const own = await post("{broken", {});
  expect([own.status, await own.json()]).toMatchObject([400, { error: { code: -32_700 } }]);
  const ended = { jsonrpc: "2.0", id: 1, method: "ping" };
  expect((await post(JSON.stringify(ended), { "mcp-session-id": "ended" })).status).toBe(404);
});

test("a client of the docs streams, resumes and sends at once", async () => {
  const big = randomBytes(3_000_000);
  const made = await makeFolders({ "poem.txt": "one\ntwo\n" });
  await writeFile(join(made, "files/big.bin"), big);
  const endpoint = await start("e2e/examples/upload-server.ts", made);
  const stdout = await runClient("e2e/examples/whole-client.ts", endpoint, made);
  expect(stdout).toContain("It has 2 lines.");
  expect(big.equals(await readFile(join(made, "downloads/big.bin")))).toBe(true);
});

test("the client of the docs reports an error by its code", async () => {
  const made = await makeFolders({});
  const endpoint = await start("e2e/examples/first-server.ts", made);
  const stdout = await runClient("e2e/examples/client-errors.ts", endpoint, made);
  expect(stdout).toMatch(/^not_found .*big\.bin/);
});

/** Runs a client of the docs in a folder that has `downloads`, to its end; gives what it printed. */
async function runClient(program: string, endpoint: string, cwd: string): Promise<string> {
  await mkdir(join(cwd, "downloads"));
  const path = await changeProgram(program, defaultEndpoint, endpoint);
  return (await promisify(execFile)(process.execPath, [path], { cwd, timeout: 60_000 })).stdout;
}

test("the server over stdio of the docs gives a link and takes a file, and ends with its host", async () => {
  const made = await makeFolders({ "files/a.txt": "hello", "report.txt": "a report" });
  const args = [
    programs["e2e/examples/stdio-server.ts"]!,
    join(made, "files"),
    join(made, "uploads"),
  ];
  const client = await connectHost(
    new StdioClientTransport({ command: process.execPath, args, cwd: tmpdir() }),
  );
  const curl = async (line: string): Promise<string> =>
    (await promisify(execFile)("sh", ["-c", line], { cwd: made })).stdout;
  const link = await callTool(client, "get_download_link", { uri: "files://demo/a.txt" });
  expect(await curl(`curl -fsS '${link.structuredContent!["download_url"]}'`)).toBe("hello");
  const { content, structuredContent } = await callTool(client, "measure");
  const [line] = /^curl .*$/m.exec(content[0]!.text)!;
  await curl(line.replace("FILE", "report.txt"));
  const { upload_id } = structuredContent!;
  const measured = await callTool(client, "measure", { upload_id });
  expect(measured.content[0]!.text).toBe("report.txt has 8 bytes.");
  await client.close();

  server = spawn(process.execPath, args, { stdio: ["pipe", "ignore", "inherit"] });
  server.stdin!.end();
  expect(await once(server, "exit")).toEqual([0, null]);
});

test("the server of the docs whose tool takes a file as an argument gets one by request_upload", async () => {
  const endpoint = await start("e2e/examples/file-arguments.ts", await makeFolders({}));
  const client = await connectHost(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { structuredContent: asked } = await callTool(client, "request_upload");
  await fetch(`${asked!["upload_url"]}a.txt`, { method: "PUT", body: "a text" });
  const { upload_id } = asked!;
  const { structuredContent: came } = await callTool(client, "check_upload", { upload_id });
  const { content } = await callTool(client, "measure", { text: came!["file"] });
  expect(content[0]!.text).toBe("a.txt has 6 bytes.");
  await client.close();
});

test("the server of the docs for SEP-2631 takes a file and gives one", async () => {
  const made = await makeFolders({ "files/report.txt": "a report" });
  const endpoint = await start("e2e/examples/file-values.ts", made);
  const client = await connectHost(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { structuredContent } = await callTool(client, "compare", { draft: "data:,a%20draft" });
  expect(structuredContent).toMatchObject({ report: { name: "report.txt", size: 8 } });
  await client.close();
});

test("the server of the guide about links gives an invoice", async () => {
  const made = await makeFolders({ "files/invoices/7.pdf": "%PDF-1.4" });
  const endpoint = await start("e2e/examples/links.ts", made);
  const client = await connectHost(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { content } = await callTool(client, "get_invoice", { order: "7" });
  const [, url] = /^7\.pdf, for ten minutes: (\S+\/d\/[\w-]{32})$/.exec(content[0]!.text)!;
  expect(await (await fetch(url!)).text()).toBe("%PDF-1.4");
  await client.close();
});

test("the server of the guide about the files page shows them, and opens a page for a visitor", async () => {
  const made = await makeFolders({ "files/report.txt": "a report", "inbox/.keep": "" });
  const endpoint = await start("e2e/examples/files-page.ts", made);
  const { origin } = new URL(endpoint);
  const page = await (await fetch(origin)).text();
  expect(page).toMatch(/<h1>\s*<bdi>Team files<\/bdi>/);
  expect(page).toContain("report.txt");
  const asked = await fetch(origin, { method: "POST" });
  expect(asked.url).toContain("/mcp/u");
  expect(await asked.text()).toContain("Which file is for the team?");
});

test("the server of the guide about users writes into the folder of its caller, and links to it", async () => {
  const made = await makeFolders({ "users/alice/a.txt": "hers", "users/bob/b.txt": "his" });
  const endpoint = await start("e2e/examples/user-folders.ts", made);
  expect((await fetch(endpoint, { method: "POST" })).status).toBe(401);
  const connectAs = (token: string) => {
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    return connectHost(new StreamableHTTPClientTransport(new URL(endpoint), { requestInit }));
  };
  await expect(connectAs("eves-token")).rejects.toThrow("unknown access token");

  const alice = await connectAs("alices-token");
  const { content } = await callTool(alice, "write_report", { month: "2026-11" });
  const [, url] = /^2026-11\.csv: (\S+\/d\/[\w-]{32})$/.exec(content[0]!.text)!;
  const report = "month,total\n2026-11,7\n";
  expect(await (await fetch(url!)).text()).toBe(report);
  expect(await readFile(join(made, "users/alice/2026-11.csv"), "utf8")).toBe(report);
  await alice.close();

  const list = (env: Readonly<Record<string, string>>) =>
    promisify(execFile)(
      process.execPath,
      [programs["packages/sluice/src/main.ts"]!, "ls", endpoint, "--json"],
      {
        env: { ...process.env, ...env },
        timeout: 60_000,
      },
    );
  const tokens = ["alices-token", "bobs-token"];
  const [hers, his] = await Promise.all(tokens.map((token) => list({ SLUICE_TOKEN: token })));
  const uris = ({ stdout }: { stdout: string }) =>
    stdout
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { uri: string }).uri);
  expect(uris(hers!)).toEqual(["files://local/2026-11.csv", "files://local/a.txt"]);
  expect(uris(his!)).toEqual(["files://local/b.txt"]);
  await expect(list({})).rejects.toThrow("requires a valid token");
});

test.runIf(hasRedis)("each of the processes of the docs serves URLs of the other", async () => {
  await using redis = await startRedis();
  const made = await makeFolders({ keys: formatKey(generateKey()) });
  await chmod(join(made, "keys"), 0o600);
  const [port, otherPort] = [await freePort(), await freePort()];
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  const options = {
    endpoint,
    redisUrl: redis.path,
    keysFile: join(made, "keys"),
    served: createMemoryBackend({ "a.txt": "hello" }),
    received: createMemoryBackend(),
    bearer: { verifier: { verifyAccessToken: () => Promise.reject(new Error("no tokens here")) } },
  };
  const said = vi.spyOn(console, "log").mockReturnValue();
  const first = await startProcess({ ...options, port, auditFile: join(made, "audit-a.log") });
  const second = await startProcess({
    ...options,
    port: otherPort,
    auditFile: join(made, "audit-b.log"),
  });
  // one listener of SIGTERM each, in this process
  for (const listener of process.listeners("SIGTERM").slice(-2)) process.off("SIGTERM", listener);
  expect((await askForeign(endpoint)).wrong).toEqual([]);

  const terms = { accept: [], maxBytes: 10, maxFiles: 1 };
  const slot = await first.uploads.reserve(undefined, terms, { selfAuthenticating: true });
  const url = new URL(`${slot.url}/a.txt`);
  const headers = { host: url.host };
  url.port = String(otherPort);
  const put = await request(url, { method: "PUT", headers, body: "a text" });
  expect(put.statusCode).toBe(201);
  const came = await first.uploads.received(undefined, slot.uploadId);
  expect(came).toMatchObject([{ name: "a.txt", size: 6 }]);

  for (const { running, redis: client } of [first, second]) await shutDown(running, client);
  expect(said.mock.calls).toEqual([["0 responses were cut"], ["0 responses were cut"]]);
  expect(process.exitCode).toBeUndefined();
  said.mockRestore();
});

/** Starts a program of the docs in a folder; gives its endpoint. */
async function start(program: string, cwd: string): Promise<string> {
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const path = await moveExample(program, endpoint);
  const started = spawn(process.execPath, [path], { cwd, stdio: ["inherit", "pipe", "inherit"] });
  server = started;
  output = "";
  started.stdout.setEncoding("utf8").on("data", (text: string) => void (output += text));
  await untilAnswered(endpoint);
  return endpoint;
}
