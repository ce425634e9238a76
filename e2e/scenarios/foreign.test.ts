// @module-tag slow
// Every server of the docs, asked by a page of another site: nothing but 403 and 421.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { getRequestListener } from "@hono/node-server";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { toNodeHandler as toSdkHandler } from "@modelcontextprotocol/node";
import { formatKey, generateKey } from "@sluice/core";
import { createMemoryBackend } from "@sluice/storage";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { createApp } from "../../apps/demo-server/src/server.ts";
import { serveHere } from "../../packages/cli/test/run-here.ts";
import { askForeign } from "../../packages/transport-http/test/foreign-requests.ts";
import { changeProgram, moveExample } from "../bed/changed-program.ts";
import { openHouse, token, verifier, type Parts } from "../bed/doors.ts";
import { freePort, listen } from "../bed/listen.ts";
import { createLinkingBridge } from "../examples/bridge-links.ts";
import * as express from "../examples/express.ts";
import * as hono from "../examples/hono.ts";
import * as worker from "../examples/worker.ts";

vi.setConfig({ testTimeout: 60_000 });

const root = fileURLToPath(new URL("../../", import.meta.url));

const deep = process.env["SLUICE_DEEP"] !== undefined;

type Mount = (parts: Parts) => RequestListener | Promise<RequestListener>;

/** Examples that are programs, started as the docs say. */
const programs: readonly string[] = [
  "archive.ts",
  "file-arguments.ts",
  "file-values.ts",
  "files-page.ts",
  "first-server.ts",
  "links.ts",
  "report.ts",
  "roles.ts",
  "sdk1-server.ts",
  "server.ts",
  "stdio-server.ts",
  "table.ts",
  "upload-server.ts",
  "user-folders.ts",
];
/** Examples that answer no requests, or that need Redis, a bucket or another runtime: asked in `examples.test.ts`, `recipes.test.ts` and `portable.test.ts`. */
const apart: readonly string[] = [
  "bucket.ts",
  "client.ts",
  "client-errors.ts",
  "fetch-server.ts",
  "first-client.ts",
  "many-processes.ts",
  "save-in-page.ts",
  "send-tus.ts",
  "sdk1-client.ts",
  "whole-client.ts",
];
/** Examples that mount a handler, by their exported functions. */
const mounts: Readonly<Record<string, Readonly<Record<string, Mount>>>> = {
  "bridge-links.ts": {
    createLinkingBridge: ({ origin }) => {
      const bridge = createLinkingBridge(new URL("http://127.0.0.1:9/mcp"), `${origin}/mcp`);
      onTestFinished(() => bridge.close());
      return toNodeHandler(bridge.handler);
    },
  },
  "express.ts": {
    createGuarded: ({ handler }) => express.createGuarded(handler, verifier),
    createLeftOpen: ({ handler, base }) => express.createLeftOpen(handler, verifier, base),
  },
  "hono.ts": {
    createGuarded: async ({ handler }) =>
      getRequestListener((await hono.createGuarded(handler, verifier)).fetch),
    createOpen: async ({ handler }) => getRequestListener((await hono.createOpen(handler)).fetch),
  },
  "worker.ts": {
    fetch: ({ origin }) => {
      const env = { ENDPOINT: `${origin}/mcp`, SLUICE_KEYS: formatKey(generateKey()) };
      const listener = getRequestListener((request) => worker.default.fetch(request, env));
      return (req, res) => void listener(req, res);
    },
  },
};

test("every example is asked", () => {
  const files = readdirSync(join(root, "e2e/examples")).filter((name) => name.endsWith(".ts"));
  const known = [...programs, ...Object.keys(mounts), ...apart];
  expect(known.toSorted()).toEqual(files.toSorted());
  expect(Object.keys(mounts["express.ts"]!)).toEqual(Object.keys(express));
  expect(Object.keys(mounts["hono.ts"]!)).toEqual(Object.keys(hono));
});

test("every fence of the docs that serves comes from a file that is asked", () => {
  const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: root, encoding: "utf8" });
  const serving = /toNodeHandler\(|createWebSocketHandler\(|handler\.fetch\(|\bserve\(/;
  const sources = new Set<string>();
  for (const page of pages.split("\n").filter((name) => name && !name.startsWith(".changeset/")))
    for (const [, source = "", code = ""] of readFileSync(join(root, page), "utf8").matchAll(
      /^```ts source=([^#\s]+)[^\n]*\n([\s\S]*?)^```$/gm,
    ))
      if (serving.test(code)) sources.add(source);
  expect(sources.size).toBeGreaterThan(4);
  // its three processes need nginx and Redis; the composition is that of the README of transport-http
  const cluster = new Set(["apps/cluster/src/lib/serve.ts"]);
  const unasked = [...sources].filter(
    (source) =>
      !cluster.has(source) &&
      !source.startsWith("e2e/examples/") &&
      !readFileSync(join(root, source), "utf8").includes("askForeign("),
  );
  expect(unasked).toEqual([]);
});

test.each(
  Object.entries(mounts).flatMap(([file, functions]) =>
    Object.keys(functions).map((name) => [file, name] as const),
  ),
)("%s, %s: a foreign Host or Origin gets 403 or 421 everywhere", async (file, name) => {
  await using house = await openHouse("/mcp", mounts[file]![name]!, { isBlind: true });
  const { parts, actions } = house;
  const paths = actions.map(({ path }) => path);
  const { wrong, count } = await askForeign(`${parts.origin}/mcp`, { paths, token });
  // a URL that is itself the permission takes every origin, and no other name of its host
  const isPublic = (path: string): boolean => /\/(?:d|u)\/[\w-]{32}$/.test(path);
  const { host } = new URL(parts.origin);
  const unsafe = wrong.filter(({ path, headers }) => headers["host"] !== host || !isPublic(path));
  expect(unsafe).toEqual([]);
  expect(count).toBeGreaterThan(deep ? 500 : 100);
});

/** Path of an example that listens on this port. */
async function exampleAt(name: string, port: number): Promise<string> {
  const source = `e2e/examples/${name}`;
  if (name === "roles.ts") return inject("programs")[source]!; // its port is a setting
  if (name === "stdio-server.ts") return changeProgram(source, "listen(0,", `listen(${port},`);
  return moveExample(source, `http://127.0.0.1:${port}/mcp`);
}

/** Starts an example in an empty folder with one file to serve; it ends with the test. */
async function startExample(name: string): Promise<string> {
  const port = await freePort();
  const path = await exampleAt(name, port);
  const folder = mkdtempSync(join(tmpdir(), "sluice-foreign-"));
  for (const part of ["files", "inbox", "reports", "trials", "uploads", "users/alice", "users/bob"])
    mkdirSync(join(folder, part), { recursive: true });
  writeFileSync(join(folder, "files/a.txt"), "hello");
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  const { SLUICE_TOKEN: _token, SLUICE_KEYS: _keys, ...inherited } = process.env;
  const env = { ...inherited, PORT: String(port), PUBLIC_URL: endpoint, XDG_STATE_HOME: folder };
  const child = spawn(process.execPath, [path], {
    cwd: folder,
    env,
    // a server over stdio ends with its stdin
    stdio: ["pipe", "ignore", "ignore"],
  });
  onTestFinished(async () => {
    if (child.exitCode === null && child.kill()) await once(child, "exit");
    rmSync(folder, { recursive: true });
  });
  const answers = (): Promise<boolean> =>
    fetch(endpoint).then(
      ({ status }) => status !== 503,
      () => false,
    );
  await vi.waitUntil(answers, { timeout: 20_000, interval: 50 });
  return endpoint;
}

test.each(programs)("%s, as a process", async (name) => {
  const endpoint = await startExample(name);
  expect((await askForeign(endpoint)).wrong).toEqual([]);
});

test.each([
  ["without a token", []],
  ["with a token", ["--token", token]],
])("sluice serve with WebSockets and uploads, %s", async (_, more) => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-foreign-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ["files", "inbox"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "files/a.txt"), "hello");
  const inbox = join(folder, "inbox");
  const served = await serveHere(join(folder, "files"), ["--ws", "--uploads", inbox, ...more]);
  onTestFinished(async () => {
    await served.end();
  });
  expect((await askForeign(served.url, { token })).wrong).toEqual([]);
});

test("the demo server", async () => {
  let app: RequestListener | undefined;
  const listening = await listen(createServer((req, res) => app?.(req, res)));
  onTestFinished(() => listening.close());
  const endpoint = `${listening.origin}/mcp`;
  const storage = createMemoryBackend({ "a.txt": "hello" });
  app = createApp({ storage, received: createMemoryBackend(), endpoint }) as RequestListener;
  expect((await askForeign(endpoint)).wrong).toEqual([]);
});

test.each<[string, Mount]>([
  [
    "has no gate",
    ({ mcp }) =>
      (req, res) =>
        void toSdkHandler(mcp)(req as never, res),
  ],
  [
    "answers its tools before the gate",
    ({ handler }) => {
      const bare = toSdkHandler(createMcpHandler(() => new McpServer({ name: "x", version: "1" })));
      const gated = toNodeHandler(handler);
      return (req, res) => (req.method === "POST" ? void bare(req as never, res) : gated(req, res));
    },
  ],
])("a server that %s is found out", async (_, mount) => {
  await using house = await openHouse("/mcp", mount, { isBlind: true });
  const { wrong } = await askForeign(`${house.parts.origin}/mcp`, { token });
  expect(wrong.length).toBeGreaterThan(10);
});
