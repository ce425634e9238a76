import { spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads, type Uploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { runHere } from "./run-here.ts";
import { program, runCommand, type Run } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const terminal = "script";
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("Ctrl-C at the question of a terminal runs with SLUICE_DEEP");
const isThere = spawnSync(terminal, ["--version"], { encoding: "utf8" }).stdout?.includes(
  "util-linux",
);
if (!isThere)
  console.log("questions on a terminal skipped: there is no util-linux `script` to make one");

let root = "";
let url = "";
let server: Server;
let uploads: Uploads;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-put-"));
  await writeFile(join(root, "a.txt"), "a file");
  await writeFile(join(root, "b.txt"), "another");
  await writeFile(join(root, "c.png"), "of another type");
  server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const sluice = createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://demo/",
    endpoint: url,
    keys: "ephemeral",
    onWarning() {},
    anonymous: true,
  });
  uploads = createUploads(sluice, { storage: createMemoryBackend({}), scan: "none" });
  const mcp = createMcpHandler(() =>
    createTools(sluice.attach(new McpServer({ name: "t", version: "1" }))),
  );
  server.on("request", toNodeHandler(withUploads(withSluice(mcp, sluice), uploads)));
});
afterAll(async () => {
  await uploads?.close();
  server?.close().closeAllConnections();
  await rm(root, { recursive: true });
});

const text = { type: "file", title: "Text", accept: ["text/plain"], multiple: true } as const;

/** `look` asks for texts, `sign` also for a name and whether it is urgent. */
function createTools(mcp: McpServer): McpServer {
  for (const [name, fields] of Object.entries({
    look: { text },
    sign: {
      text,
      name: { type: "string", title: "Your name", required: true },
      urgent: { type: "boolean" },
    },
  } as const))
    mcp.registerTool(name, { inputSchema: z.object({}) }, async (_args, ctx) => {
      const message = "Texts to \u001b[2Jsign";
      const outcome = await uploads.ask({ message, fields }, { mcp, ctx });
      if (outcome.action === "ask") return outcome.result;
      const said =
        outcome.action === "accept"
          ? { names: outcome.files.text.map((file) => file.name), values: outcome.values }
          : outcome.action;
      return { content: [{ type: "text", text: JSON.stringify(said) }] };
    });
  mcp.registerTool("idle", { inputSchema: z.object({}) }, () => ({
    content: [{ type: "text", text: "well" }],
  }));
  mcp.registerTool("forgiving", { inputSchema: z.object({}) }, async (_args, ctx) => {
    const outcome = await uploads
      .ask({ message: "Texts", fields: { text: { ...text, maxBytes: 5 } } }, { mcp, ctx })
      .catch((error: Error) => error);
    if ("action" in outcome && outcome.action === "ask") return outcome.result;
    return { content: [{ type: "text", text: "well" }] };
  });
  return mcp;
}

/** Runs `put` on a terminal and types an answer at each of the questions. */
async function asked(tool: string, answers: readonly (readonly [string, string])[]): Promise<Run> {
  const line = [...program, "put", url, "--tool", tool].map((word) => `'${word}'`).join(" ");
  return runCommand([terminal, "-qec", `stty cols 80 rows 24; ${line}`, "/dev/null"], {
    cwd: root,
    env: { TERM: "xterm" },
    onStart(child: ChildProcess) {
      const left = [...answers];
      let seen = "";
      child.stdout!.on("data", (chunk: Buffer) => {
        seen += chunk.toString();
        const [question, answer] = left[0] ?? ["", ""];
        if (answer === "" || !seen.includes(question)) return;
        left.shift();
        seen = "";
        child.stdin!.write(answer);
      });
    },
  });
}

test("files of the command line answer a tool that asks for some", async () => {
  const run = await runHere(["put", url, "a.txt", "b.txt", "--tool", "look"], { cwd: root });
  expect(run.stderr).toContain("asks for files: Texts to \\u{1b}[2Jsign");
  expect(run).toMatchObject({ status: 0, stdout: '{"names":["a.txt","b.txt"],"values":{}}\n' });
});

test("input that does not fit the elicitation is not sent", async () => {
  const { status, stderr, stdout } = await runHere(["put", url, "c.png", "--tool", "look"], {
    cwd: root,
  });
  expect(stderr).toContain("another type than text/plain");
  expect([status, stdout]).toEqual([exitCodes.refused.status, ""]);
});

test.each([
  ["does not ask for files", ["a.txt", "--tool", "idle"], "well\n"],
  ["does not ask, and none are named", ["--tool", "idle"], "well\n"],
  ["gets none because they are too large", ["a.txt", "--tool", "forgiving"], ""],
])("a tool that %s ends with an error, since nothing was sent", async (_, args, said) => {
  const { status, stderr, stdout } = await runHere(["put", url, ...args], { cwd: root });
  expect(stderr).toMatch(/^sluice: |\nsluice: /);
  expect([status, stdout]).toEqual([exitCodes.refused.status, said]);
});

test("a server whose tools take no files says so", async () => {
  const { status, stderr } = await runHere(["put", url, "a.txt"], { cwd: root });
  expect(stderr).toContain("has no tool that takes a file");
  expect(status).toBe(exitCodes.refused.status);
});

test("without a terminal the user is not asked, and that is said", async () => {
  for (const args of [
    ["--tool", "look"],
    ["a.txt", "--tool", "sign"],
  ]) {
    const { status, stderr, stdout } = await runHere(["put", url, ...args], { cwd: root });
    expect(stderr).toMatch(/no terminal to ask on: .* asks for files: Texts/);
    expect([status, stdout]).toEqual([exitCodes.refused.status, ""]);
  }
});

test.skipIf(!isThere)(
  "files and values are asked for on a terminal, each in its own way",
  { tags: "slow" },
  async () => {
    const { stdout, status } = await asked("sign", [
      ["Choose files to send?", "\r"],
      ["Text (text/plain", "c.png\r"],
      ["Expected: text/plain", "\u0015a.txt\r"],
      ["or nothing", "\r"],
      ["Your name", "Ada\r"],
      ["urgent", "\r"],
    ]);
    expect(stdout).toContain('{"names":["a.txt"],"values":{"name":"Ada","urgent":true}}');
    expect(status).toBe(0);
  },
);

test
  .skipIf(!isThere)
  .each([
    ["no declines, and nothing was sent", "n", exitCodes.refused.status, '"decline"'],
    ...(isDeep
      ? [
          [
            "Ctrl-C ends the command as ever",
            "\u0003",
            exitCodes.interrupted.status,
            "interrupted",
          ] as const,
        ]
      : []),
  ] as const)("%s at the question", async (_, answer, status, said) => {
  const run = await asked("look", [["Choose files to send?", answer]]);
  expect(run.stdout).toContain(said);
  expect(run.status).toBe(status);
});
