// Puts `sluice bridge` with its folders in front of public servers: a large result becomes a file, a resource is saved, a file
// is sent, and the next call after the server was killed is answered. A server that cannot be installed is skipped, with the
// reason. Further ones are a row in `servers`.
//   node tools/bridge-servers.mjs [NAME...]
import { match } from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const fromSource = ["--conditions=@sluice/source", "--import", import.meta.resolve("tsx")];
const bridge = [...fromSource, join(root, "packages/cli/src/main.ts"), "bridge"];
const deadlineMs = 120_000;

const folder = mkdtempSync(join(tmpdir(), "sluice-servers-"));
const [served, sent] = ["served", "sent"].map((name) => join(folder, name));
for (const made of [served, sent]) mkdirSync(made);
const big = join(served, "big.txt");
writeFileSync(big, "a line é\n".repeat(20_000));
writeFileSync(join(sent, "d.csv"), "a,b\n1,2\n");

const inFile = /is in a file: it is too large to show/;
const send = (tool, argument, others, more = {}) => [
  "send_file",
  { path: "d.csv", tool, argument, arguments: JSON.stringify(others), ...more },
];
const everything = [
  ["echo", { message: "x".repeat(100_000) }, inFile],
  ["save_resource", { uri: "demo://resource/dynamic/blob/2" }, /^Saved to /],
  [...send("gzip-file-as-resource", "data", { name: "d.csv.gz" }), /as base64, to gzip/],
  ["trigger-long-running-operation", { duration: 1, steps: 2 }, /completed/],
];
const url =
  (path) =>
  ({ port }) =>
    `http://127.0.0.1:${port}${path}`;

/**
 * Name → package and program; `url` for those that listen; its arguments and environment; programs of the system that it needs;
 * and calls: tool, arguments, and what the text of the result has. The first is made again after a restart.
 */
const servers = {
  filesystem: {
    packages: ["@modelcontextprotocol/server-filesystem@2026.8.31"],
    program: "mcp-server-filesystem",
    args: [served],
    calls: [
      ["read_text_file", { path: big }, inFile],
      ["read_text_file", { path: "/etc/passwd" }, /denied/],
      [
        ...send("write_file", "content", { path: join(served, "d.csv") }, { as: "text" }),
        /as text, to write_file/,
      ],
      ["read_text_file", { path: join(served, "d.csv") }, /^a,b\n1,2/],
    ],
  },
  everything: {
    packages: ["@modelcontextprotocol/server-everything@2026.8.31"],
    program: "mcp-server-everything",
    args: ["stdio"],
    calls: everything,
  },
  "everything over HTTP": {
    packages: ["@modelcontextprotocol/server-everything@2026.8.31"],
    program: "mcp-server-everything",
    args: ["streamableHttp"],
    url: url("/mcp"),
    calls: everything,
  },
  "everything over HTTP with SSE": {
    packages: ["@modelcontextprotocol/server-everything@2026.8.31"],
    program: "mcp-server-everything",
    args: ["sse"],
    url: url("/sse"),
    calls: everything,
  },
  memory: {
    packages: ["@modelcontextprotocol/server-memory@2026.8.31"],
    program: "mcp-server-memory",
    env: { MEMORY_FILE_PATH: join(folder, "memory.json") },
    calls: [
      [
        "create_entities",
        { entities: [{ name: "A", entityType: "t", observations: ["o".repeat(300_000)] }] },
        inFile,
      ],
      ["read_graph", {}, inFile],
      ["save_resource", { uri: "memory://knowledge-graph" }, /^Saved to /],
    ],
    again: ["read_graph", {}, inFile],
  },
  playwright: {
    packages: ["@playwright/mcp@0.0.83"],
    program: "playwright-mcp",
    needs: "chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--isolated",
      "--executable-path",
      "/usr/bin/chromium",
      "--output-dir",
      join(folder, "pages"),
    ],
    calls: [["browser_navigate", { url: `data:text/html,<p>${"word ".repeat(40_000)}` }, inFile]],
  },
  commands: {
    packages: ["@agent-infra/mcp-server-commands@1.2.18"],
    program: "mcp-server-commands",
    calls: [["run_command", { command: "seq 1 30000" }, inFile]],
  },
};

/** The path of a server's program, or why there is none. */
function install({ packages, program, needs }) {
  if (needs && spawnSync("sh", ["-c", `command -v ${needs}`]).status !== 0)
    return { reason: `${needs} is not installed` };
  const wanted = packages.map((name) => `--package=${name}`);
  const { status, stdout, stderr } = spawnSync(
    "npx",
    ["--yes", "--loglevel=error", ...wanted, "-c", `command -v ${program}`],
    { encoding: "utf8", timeout: 2 * deadlineMs },
  );
  if (status === 0) return { path: stdout.trim().split("\n").at(-1) };
  return { reason: `${packages.join(", ")}: ${stderr.trim().split("\n")[0] || "no npm"}` };
}

/** A host of JSON lines in front of a program. */
function openHost(args, env) {
  const child = spawn(process.execPath, args, { env, stdio: ["pipe", "pipe", "ignore"] });
  const waiting = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line);
    waiting.get(id)?.(error ? { isError: true, content: [{ text: error.message }] } : result);
  });
  const write = (message) =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  let lastId = 0;
  function ask(method, params) {
    const id = ++lastId;
    write({ id, method, params });
    const answer = new Promise((resolve) => waiting.set(id, resolve));
    const late = sleep(deadlineMs, undefined, { ref: false }).then(() => {
      throw new Error(`${method} was not answered in ${deadlineMs / 1_000} s`);
    });
    return Promise.race([answer, late]);
  }
  return {
    child,
    ask,
    async open() {
      const clientInfo = { name: "host", version: "1" };
      await ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
      write({ method: "notifications/initialized" });
    },
  };
}

/** Runs the server itself where it listens; with a way to end it at once. */
async function startServer(path, { args = [], url: urlOf }, env) {
  if (!urlOf) return undefined;
  const { pid } = spawn(path, args, { env, stdio: "ignore", detached: true });
  if (pid === undefined) throw new Error(`${path} does not start`);
  const address = urlOf({ port: env.PORT });
  for (let tries = 0; tries < deadlineMs / 100; tries++) {
    const isThere = await fetch(new URL("/none", address), {
      signal: AbortSignal.timeout(1_000),
    }).then(
      () => true,
      () => false,
    );
    if (isThere) break;
    await sleep(100);
  }
  return { address, kill: () => process.kill(-pid, "SIGKILL") };
}

async function tryServer(path, row) {
  const env = { ...process.env, PORT: String(await freePort()), ...row.env };
  let server = await startServer(path, row, env);
  const behind = server ? [server.address] : ["--", path, ...(row.args ?? [])];
  const saved = mkdtempSync(join(folder, "saved-"));
  const flags = ["--save-to", saved, "--send-from", sent, "--yes-below", "1M"];
  const host = openHost([...bridge, ...flags, ...behind], env);
  async function call([name, given, holds]) {
    const { content } = await host.ask("tools/call", { name, arguments: given });
    match(content.map(({ text = "" }) => text).join("\n"), holds);
  }
  try {
    await host.open();
    for (const each of row.calls) await call(each);
    if (server) {
      server.kill();
      // a call on a connection that just broke may have run, and is not sent again
      await sleep(1_000);
      server = await startServer(path, row, env);
    } else {
      spawnSync("pkill", ["-KILL", "-P", String(host.child.pid)]);
      await sleep(500);
    }
    await call(row.again ?? row.calls[0]);
  } finally {
    host.child.stdin.end();
    server?.kill();
  }
}

const names = process.argv.slice(2);
try {
  for (const [name, row] of Object.entries(servers)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const { path, reason } = install(row);
    if (path) await tryServer(path, row);
    const outcome = path
      ? `${row.calls.length} calls, and one after a restart`
      : `skipped, ${reason}`;
    process.stdout.write(`${name}: ${outcome}\n`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
