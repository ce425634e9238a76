import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes } from "../src/terminal/exit-code.ts";
import { Stopped } from "../src/terminal/failure.ts";
import { execute } from "../src/commands/run.ts";
import { program } from "./sluice.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 120_000 });

let silent: Server;
let url = "";
let requests = 0;
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-signals-"));
  await writeFile(join(folder, "sent.txt"), "sent");
  // takes every request and answers none
  silent = createServer(() => (requests += 1)).listen(0, "127.0.0.1");
  await once(silent, "listening");
  url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/mcp`;
});
afterAll(async () => {
  silent.closeAllConnections();
  silent.close();
  await once(silent, "close");
  await rm(folder, { recursive: true });
});

const commands: Readonly<Record<string, () => readonly string[]>> = {
  get: () => ["get", url, "files://local/a"],
  ls: () => ["ls", url],
  put: () => ["put", url, join(folder, "sent.txt")],
  serve: () => ["serve", folder, "--port", "0", "--no-audit"],
};

test.each(Object.entries(commands))(
  "a signal that came while the code of %s was loaded ends the run before it begins",
  async (_command, args) => {
    const before = requests;
    const stopped = AbortSignal.abort(new Stopped("interrupted"));
    expect(await execute(args(), stopped)).toBe(exitCodes.interrupted.status);
    expect(requests).toBe(before);
  },
);

test("Ctrl-C while the server does not answer the first request ends the run", async () => {
  const stop = new AbortController();
  const before = requests;
  const running = execute(["ls", url], stop.signal);
  await expect.poll(() => requests).toBeGreaterThan(before);
  stop.abort(new Stopped("interrupted"));
  expect(await running).toBe(exitCodes.interrupted.status);
});

// far more than the end takes, far less than the minute that the SDK waits for an answer
const maxMs = 20_000;
const moments = process.env["SLUICE_DEEP"]
  ? Array.from({ length: 50 }, (_, at) => at * 10)
  : [0, 100, 250];

test.each(Object.entries(commands))(
  "Ctrl-C at any moment of its first half second ends %s and leaves nothing behind",
  async (command, args) => {
    for (const ms of moments) {
      const cwd = await mkdtemp(join(folder, "in-"));
      const [node = "", ...first] = program;
      const child = spawn(node, [...first, ...args()], { cwd, stdio: "ignore" });
      const ended = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
      await sleep(ms);
      child.kill("SIGINT");
      const late = new AbortController();
      const limit = sleep(maxMs, ["late", null] as const, late);
      const [status, signal] = await Promise.race([ended, limit.catch(() => [])]);
      late.abort();
      child.kill("SIGKILL");
      // before a handler is there the signal ends the process; a server that listens ends as it should
      const expected = command === "serve" ? ["SIGINT", 130, 0] : ["SIGINT", 130];
      expect(expected, `after ${ms} ms: ${status} ${signal}`).toContain(signal ?? status);
      expect(await readdir(cwd)).toEqual([]);
    }
  },
);

// it reads its input, ends with neither that nor SIGTERM, and says its id
const stubborn = `
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1_000);
  process.stdin.once("data", (line) => {
    const { id } = JSON.parse(line);
    const serverInfo = { name: String(process.pid), version: "1" };
    const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo };
    console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });`;

test(
  "a stubborn program behind a bridge is gone before a host of the official SDK kills the bridge",
  { tags: "slow" },
  async () => {
    const [command, ...args] = [...program, "bridge", "--", process.execPath, "-e", stubborn];
    const client = new Client({ name: "host", version: "1" });
    await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
    const pid = Number(client.getServerVersion()?.name);
    expect(isAlive(pid)).toBe(true);
    try {
      await client.close();
      await expect.poll(() => isAlive(pid)).toBe(false);
    } finally {
      if (isAlive(pid)) process.kill(pid, "SIGKILL");
    }
  },
);

test.each(["SIGTERM", "SIGHUP", "SIGQUIT"] as const)(
  "a second signal after %s ends the bridge and its stubborn program at once",
  { tags: "slow" },
  async (signal) => {
    const [command, ...args] = [...program, "bridge", "--", process.execPath, "-e", stubborn];
    const bridge = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
    const ended = once(bridge, "exit");
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    const request = { jsonrpc: "2.0", id: 1, method: "initialize", params };
    bridge.stdin.write(`${JSON.stringify(request)}\n`);
    const [line] = (await once(bridge.stdout, "data")) as [Buffer];
    const { result } = JSON.parse(String(line)) as { result: { serverInfo: { name: string } } };
    const pid = Number(result.serverInfo.name);
    expect(isAlive(pid)).toBe(true);
    try {
      bridge.kill(signal);
      await sleep(50);
      bridge.kill("SIGTERM");
      expect(await ended).toEqual([143, null]);
      await expect.poll(() => isAlive(pid)).toBe(false);
    } finally {
      if (isAlive(pid)) process.kill(pid, "SIGKILL");
    }
  },
);

const clientInfo = { name: "host", version: "1" };

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
