// Commands that sign in where a server asks for it, with tokens that the bridge shares.
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { agree, startGuarded } from "../../bridge/test/guarded.ts";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";
import type { Run } from "./sluice.ts";

vi.setConfig({ testTimeout: 60_000 });
// the page of a sign-in is agreed to, as a user does
const opened = vi.hoisted(() => ({ pages: [] as string[] }));
vi.mock("open", () => ({
  default: async (page: string) => {
    opened.pages.push(page);
    await agree(new URL(page));
  },
}));

let root = "";
let isTerminal: boolean | undefined;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-sign-in-"));
  isTerminal = process.stderr.isTTY;
  opened.pages.length = 0;
});
afterEach(async () => {
  process.stderr.isTTY = isTerminal as boolean;
  await rm(root, { recursive: true });
});

const run = (args: readonly string[], onTerminal: boolean): Promise<Run> => {
  process.stderr.isTTY = onTerminal;
  return runHere(args, { cwd: root, env: { XDG_STATE_HOME: join(root, "state") } });
};

function createServer(): McpServer {
  const server = new McpServer({ name: "guarded", version: "1" });
  server.registerResource("a", "files://x/a.txt", {}, async (uri) => ({
    contents: [{ uri: uri.href, text: "content" }],
  }));
  return server;
}

/** A server with a resource, behind the check of tokens. */
function startSignedIn(): ReturnType<typeof startGuarded> {
  const handle = toNodeHandler(createMcpHandler(createServer));
  return startGuarded({
    handle: (request, response, body) => {
      void handle(request as NodeIncomingMessageLike & typeof request, response, body);
    },
  });
}

test("a user signs in once for all commands, and the tokens are where the bridge keeps them", async () => {
  const { url, seen } = await startSignedIn();
  expect(await run(["ls", url.href], true)).toMatchObject({
    stdout: expect.stringContaining("x/a"),
  });
  expect(opened.pages).toHaveLength(1);
  const cat = await run(["cat", url.href, "files://x/a.txt"], false);
  expect(cat).toMatchObject({ status: 0, stdout: "content" });
  const get = await run(["get", url.href, "files://x/a.txt", "-o", "copy", "-y"], false);
  expect([get.status, await readFile(join(root, "copy"), "utf8")]).toEqual([0, "content"]);
  expect([opened.pages.length, seen.registrations, seen.exchanges]).toEqual([1, 1, 1]);
  const folder = join(root, "state/sluice/bridge");
  const [file] = await readdir(folder);
  expect((await stat(join(folder, file!))).mode & 0o777).toBe(0o600);
});

test("without a terminal nobody is asked to sign in, and one line says what to do", async () => {
  const { url } = await startSignedIn();
  const { status, stdout, stderr } = await run(["ls", url.href], false);
  expect(stderr).toMatch(
    /^sluice: [^\n]*no terminal to ask on: run it on one once; [^\n]*SLUICE_TOKEN[^\n]*\n$/,
  );
  expect([status, stdout, opened.pages]).toEqual([exitCodes.denied.status, "", []]);
});

test.each([
  ["--no-browser", ["--no-browser"]],
  ["a token of its own", ["--token", "wrong"]],
  ["an Authorization header", ["--header", "Authorization: Bearer wrong"]],
])("with %s no page is opened", async (_, options) => {
  const { url } = await startSignedIn();
  const { status, stderr } = await run(["ls", url.href, ...options], true);
  expect([status, opened.pages]).toEqual([exitCodes.denied.status, []]);
  expect(stderr).toMatch(/^sluice: [^\n]*requires a valid token; [^\n]+\n$/);
});
