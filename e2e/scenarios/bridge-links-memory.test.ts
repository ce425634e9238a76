// @module-tag slow
// A bridge in a process of its own: how much memory and disk a large result takes on its way to a link.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, expect, inject, onTestFinished, test } from "vitest";
import { startS3StandIn } from "../../packages/storage-s3/test/stand-in/stand-in.ts";
import { urlIn } from "../bed/bridge-operator.ts";
import { large, startLargeServer } from "../bed/large-server.ts";
import type { LinkingSettings } from "../bed/programs/bridge-links.ts";

const program = inject("programs")["e2e/bed/programs/bridge-links.ts"]!;
const mib = 2 ** 20;
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("6 MiB only: 200 MiB run with SLUICE_DEEP");
const pieces = isDeep ? 3_200 : 96;
const piece = Buffer.alloc(65_535);
for (let at = 0; at < piece.length; at++) piece[at] = (at * 31) % 251;
const size = pieces * piece.length;

/** A server over stdio that writes a blob of 64 KiB pieces as its client takes them. */
const source = `
const piece = Buffer.alloc(65_535);
for (let at = 0; at < piece.length; at++) piece[at] = (at * 31) % 251;
const text = piece.toString("base64");
const say = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
const { once } = require("node:events");
async function large(id) {
  process.stdout.write('{"jsonrpc":"2.0","id":' + JSON.stringify(id) + ',"result":{"contents":[{"uri":"a:b","mimeType":"x/y","blob":"');
  for (let at = 0; at < ${pieces}; at++) if (!process.stdout.write(text)) await once(process.stdout, "drain");
  process.stdout.write('"}]}}\\n');
}
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion,
    capabilities: { resources: {} }, serverInfo: { name: "l", version: "1" } } });
  else if (method === "resources/read") void large(id);
  else if (method === "ping") say({ id, result: {} });
  else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } });
});`;
const largeServer = [process.execPath, "-e", source];

const whole = createHash("sha256");
for (let at = 0; at < pieces; at++) whole.update(piece);
const expected = whole.digest("hex");

/** The host of a bridge over stdio; its environment has these folders alone. */
async function startHost(settings: LinkingSettings, folders?: OwnFolders): Promise<Client> {
  const args = [program, JSON.stringify(settings)];
  const { PATH = "" } = process.env;
  const own = folders && {
    cwd: folders.work,
    env: { PATH, HOME: folders.home, TMPDIR: folders.tmp },
  };
  const transport = new StdioClientTransport({ command: process.execPath, args, ...own });
  const client = new Client({ name: "host", version: "1" });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return Object.assign(client, { pid: transport.pid! });
}

function pidOf(client: Client): number {
  return (client as Client & { pid: number }).pid;
}

function memoryOf(pid: number, field: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1_024;
}

async function hashAt(url: string): Promise<string> {
  const hash = createHash("sha256");
  const { body } = await fetch(url);
  for await (const chunk of body!) hash.update(chunk);
  return hash.digest("hex");
}

interface OwnFolders {
  readonly work: string;
  readonly home: string;
  readonly tmp: string;
}

function makeFolder(): string {
  const path = mkdtempSync(join(tmpdir(), "sluice-links-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function linkedBlob(client: Client): Promise<string> {
  const result = await client.readResource({ uri: "a:b" }, { timeout: 600_000 });
  expect(JSON.stringify(result).length).toBeLessThan(2_048);
  const [content] = result.contents as { text: string }[];
  expect(content!.text).toContain(`${size} bytes, x/y, decoded from base64, sha-256 ${expected}`);
  return urlIn(content!.text);
}

const hasMemory = existsSync("/proc/self/status");
if (!hasMemory) console.info("memory is not measured: there is no /proc");

const standIn = startS3StandIn();
afterAll(async () => (await standIn)[Symbol.asyncDispose]());

for (const kind of ["folder", "bucket"] as const)
  test(`a blob of ${Math.round(size / mib)} MiB goes to a ${kind} while it comes: the host sees under 2 KiB, and the link gives it`, async () => {
    const { bucket, endpoint, credentials, region } = await standIn;
    const settings: LinkingSettings =
      kind === "folder"
        ? { behind: largeServer, folder: makeFolder() }
        : { behind: largeServer, bucket: { bucket, endpoint, credentials, region } };
    const client = await startHost(settings);
    await client.ping();
    const pid = pidOf(client);
    const idle = hasMemory ? memoryOf(pid, "VmRSS") : 0;
    const url = await linkedBlob(client);
    const grown = hasMemory ? memoryOf(pid, "VmHWM") - idle : 0;
    expect(await hashAt(url)).toBe(expected);
    const sent = hasMemory ? memoryOf(pid, "VmHWM") - idle : 0;
    console.info(
      `${kind}: memory above idle: ${Math.round(grown / mib)} MiB, with its download ${Math.round(sent / mib)} MiB`,
    );
    expect(sent).toBeLessThan(64 * mib);
  });

test("negative control: a hold in memory has it", async () => {
  if (!hasMemory || !isDeep) {
    console.info("the twin needs /proc and SLUICE_DEEP");
    return;
  }
  const client = await startHost({ behind: largeServer });
  const idle = memoryOf(pidOf(client), "VmRSS");
  await linkedBlob(client);
  expect(memoryOf(pidOf(client), "VmHWM") - idle).toBeGreaterThan(64 * mib);
});

/** What was written below folders while `work` ran: names, also of what is gone again. */
async function writtenBelow(folders: OwnFolders, work: () => Promise<void>): Promise<string[]> {
  const seen: string[] = [];
  const watchers = Object.values(folders as unknown as Record<string, string>).map((path) =>
    watch(path, { recursive: true }, (_, name) => void seen.push(String(name))),
  );
  await work();
  // what is told late
  await new Promise((resolve) => setTimeout(resolve, 100));
  for (const watcher of watchers) watcher.close();
  const left = Object.values(folders).flatMap((path: string) => readdirSync(path));
  return [...seen, ...left];
}

test("nothing is written below the working folder, HOME or tmp: a program behind", async () => {
  const folders = { work: makeFolder(), home: makeFolder(), tmp: makeFolder() };
  const written = await writtenBelow(folders, async () => {
    const client = await startHost({ behind: largeServer }, folders);
    expect(await hashAt(await linkedBlob(client))).toBe(expected);
    await client.close();
  });
  expect(written).toEqual([]);
});

test("nothing is written below the working folder, HOME or tmp: a server over HTTP behind", async () => {
  const folders = { work: makeFolder(), home: makeFolder(), tmp: makeFolder() };
  const behind = (await startLargeServer()).href;
  const written = await writtenBelow(folders, async () => {
    const client = await startHost({ behind }, folders);
    const { content } = await client.callTool({ name: "give", arguments: { what: "text" } });
    const url = urlIn((content[0] as { text: string }).text);
    expect(await (await fetch(url)).text()).toBe(large.text);
    await client.close();
  });
  expect(written).toEqual([]);
});

test("negative control: a hold in a folder below tmp is detected", async () => {
  const folders = { work: makeFolder(), home: makeFolder(), tmp: makeFolder() };
  const written = await writtenBelow(folders, async () => {
    const client = await startHost({ behind: largeServer, folder: folders.tmp }, folders);
    await linkedBlob(client);
  });
  expect(written.length).toBeGreaterThan(0);
});
