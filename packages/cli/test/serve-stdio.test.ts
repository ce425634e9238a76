// @module-tag slow
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";
import { program } from "./sluice.ts";
import { startRaw, stdioClients, type RawServer } from "./stdio-client.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const big = randomBytes(4 * 1024 ** 2);
let root = "";
let files = "";
let inbox = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-stdio-"));
  files = join(root, "files");
  inbox = join(root, "inbox");
  await mkdir(files);
  await mkdir(inbox);
  await writeFile(join(files, "notes.txt"), "one\ntwo\n");
  await writeFile(join(files, "big.bin"), big);
  await writeFile(join(files, "huge.bin"), "");
  await truncate(join(files, "huge.bin"), 2 ** 29);
});
afterAll(() => rm(root, { recursive: true }));

const initialize = {
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "raw", version: "1" },
  },
};

/** Opens the connection, and gives the link to a file. */
async function linkFrom(server: RawServer, name = "big.bin"): Promise<string> {
  await server.ask(initialize);
  const { result } = await server.ask({
    id: 2,
    method: "tools/call",
    params: { name: "get_download_link", arguments: { uri: `files://local/${name}` } },
  });
  return result.structuredContent.download_url;
}

const clients = Object.keys(stdioClients) as (keyof typeof stdioClients)[];
if (!isDeep) console.info("each SDK once: MCP 2025-11-25 of SDK 2 runs with SLUICE_DEEP");

test.each(clients.filter((name) => isDeep || name !== "SDK 2, MCP 2025-11-25"))(
  "%s lists, reads, and gets a link whose bytes curl fetches from beside the pipe",
  async (client) => {
    await using connected = await stdioClients[client]([files, "--stdio"]);
    const { tools } = await connected.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "list_files",
      "read_file",
      "stat_file",
      "get_download_link",
    ]);
    const read = await connected.callTool("read_file", { uri: "files://local/notes.txt" });
    expect(read.content[0].text).toBe("one\ntwo\n");
    const { structuredContent } = await connected.callTool("get_download_link", {
      uri: "files://local/big.bin",
    });
    const url = structuredContent.download_url;
    expect(new URL(url).pathname).toMatch(/^\/mcp\/d\/[\w-]{32}$/);
    const options = { encoding: "buffer", maxBuffer: 2 ** 26 } as const;
    const { stdout } = await promisify(execFile)("curl", ["-sf", url], options);
    expect(big.equals(stdout)).toBe(true);
  },
);

test("a client over stdio subscribes, and hears of a change", async () => {
  const client = new Client({ name: "test", version: "1" });
  const [command = "", ...rest] = program;
  const args = [...rest, "serve", files, "--stdio"];
  await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
  const updated = new Promise<string>((resolve) => {
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
      resolve(params.uri),
    );
  });
  const uri = "files://local/notes.txt";
  await client.subscribeResource({ uri });
  const now = new Date();
  const touching = setInterval(() => {
    now.setSeconds(now.getSeconds() + 1);
    void utimes(join(files, "notes.txt"), now, now);
  }, 200);
  expect(await updated).toBe(uri);
  clearInterval(touching);
  await client.close();
});

describe("a server with an open pipe", () => {
  let server: RawServer;
  let link = "";
  beforeAll(() => {
    // a token in the environment, which other commands use, does not matter
    vi.stubEnv("SLUICE_TOKEN", "correct-horse-battery-staple");
    server = startRaw([files, "--uploads", inbox]);
    vi.unstubAllEnvs();
  });

  test("beside the pipe HTTP has links alone: no MCP and no list of files", async () => {
    link = await linkFrom(server);
    expect((await fetch(link)).status).toBe(200);
    const { origin } = new URL(link);
    const call = await fetch(`${origin}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...initialize }),
    });
    expect(call.status).toBe(404);
    expect((await fetch(`${origin}/`)).status).toBe(404);
  });

  test("standard output has the protocol and nothing else, and the end of stdin ends everything", async () => {
    expect(await readdir(inbox)).toHaveLength(1);
    server.child.stdin!.end();
    const { status, stdout, stderr } = await server.ended();
    expect(status).toBe(0);
    for (const line of stdout.split("\n"))
      expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
    expect(stderr).toContain("over stdio");
    expect(stderr).not.toContain(link);
    expect(await readdir(inbox)).toEqual([]);
    await expect(fetch(link)).rejects.toThrow("fetch failed");
  });
});

test("a reader that is gone ends the server as the end of stdin does", async () => {
  const server = startRaw([files, "--uploads", inbox]);
  await server.ask(initialize);
  server.child.stdout!.destroy();
  for (let id = 2; id < 6; id++)
    server.child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "tools/list" })}\n`);
  expect((await server.ended()).status).toBe(0);
  expect(await readdir(inbox)).toEqual([]);
});

test("a signal ends it while stdin is open", async () => {
  const server = startRaw([files]);
  await server.ask(initialize);
  server.child.kill("SIGTERM");
  expect((await server.ended()).status).toBe(0);
});

test("a download that is under way at the end is cut, not ended", async () => {
  const server = startRaw([files]);
  const response = await fetch(await linkFrom(server, "huge.bin"));
  server.child.stdin!.end();
  expect((await server.ended()).stderr).toContain("Cut off: 1");
  await expect(response.arrayBuffer()).rejects.toThrow("terminated");
});

test.each([
  ["--public-url", ["--public-url", "https://files.example.com/mcp"]],
  ["--ws", ["--ws"]],
  ["--allow-anonymous", ["--allow-anonymous"]],
  ["--origin", ["--origin", "http://localhost:6274"]],
  ["0.0.0.0", ["--host", "0.0.0.0"]],
])("%s is a usage error with --stdio", async (name, args) => {
  const { status, stdout, stderr } = await runHere(["serve", files, "--stdio", ...args]);
  expect(status).toBe(exitCodes.usage.status);
  expect(stdout).toBe("");
  expect(stderr).toMatch(/^sluice: .*--stdio.*\n$/);
  expect(stderr).toContain(name);
});
