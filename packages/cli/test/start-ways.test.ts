// @module-tag slow
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { program, runCommand } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 120_000 });

const main = program[1]!;
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-start-"));
  await symlink(main, join(folder, "sluice"));
});
afterAll(() => rm(folder, { recursive: true }));

const serving = (): readonly string[] => ["serve", folder, "--port", "0", "--no-audit"];

/** How a program is started by tools that stand in front of it. */
const commands: Readonly<Record<string, () => readonly string[]>> = {
  "through a link, as package managers make them": () => ["node", join(folder, "sluice")],
  "by node --watch": () => ["node", "--watch", main],
};

test.each(Object.entries(commands))("serves if started %s", async (_, command) => {
  const [node, ...before] = command();
  const signal = AbortSignal.timeout(60_000);
  let url = "";
  await runCommand([node === "node" ? process.execPath : node!, ...before, ...serving()], {
    onStart(child) {
      const kill = (): void => void child.kill();
      signal.addEventListener("abort", kill);
      child.stdout!.once("data", (line: Buffer) => {
        url = String(line);
        kill();
      });
    },
  });
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp/);
});

test("serves if another program forked it, which keeps a channel open", async () => {
  const child = fork(main, serving(), { silent: true, execArgv: [] });
  const output = text(child.stdout!);
  child.stdout!.once("data", () => child.kill());
  await once(child, "exit", { signal: AbortSignal.timeout(60_000) });
  expect(await output).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp/);
});

/** Commands that listen. */
const listening: Readonly<Record<string, () => readonly string[]>> = {
  serve: serving,
  "serve --stdio": () => ["serve", folder, "--stdio"],
  "bridge --http": () => ["bridge", "--http", "--port", "0", "http://127.0.0.1:9/mcp"],
};

/** Runs a program in a worker, and ends with its status. */
const primary = `
  const [exec, ...args] = process.argv.slice(1);
  const cluster = require("node:cluster");
  cluster.setupPrimary({ exec, args, execArgv: [] });
  cluster.fork().on("exit", (status) => process.exit(status));
`;

test.each(Object.entries(listening))("%s ends at once in a cluster worker", async (_, args) => {
  const { status, stderr } = await runCommand(
    [process.execPath, "-e", primary, "--", main, ...args()],
    { onStart: (child) => setTimeout(() => child.kill(), 60_000).unref() },
  );
  expect(stderr).toContain("with pm2 in fork mode, without -i");
  expect(status).toBe(exitCodes.usage.status);
});
