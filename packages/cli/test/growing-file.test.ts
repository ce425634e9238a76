import { appendFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runHere, serveHere } from "./run-here.ts";
import { freePort, type Served } from "./sluice.ts";

const size = 8 * 1024 * 1024;
let root = "";
let files = "";
let served: Served;
let growing: NodeJS.Timeout | undefined;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-growing-"));
  files = join(root, "files");
  await mkdir(files);
  for (const name of ["app.log", "trace.jsonl"])
    await writeFile(join(files, name), "a".repeat(size));
  // at each moment, also between the call and the download
  growing = setInterval(() => {
    for (const name of ["app.log", "trace.jsonl"]) appendFileSync(join(files, name), "more\n");
  }, 5);
  const args = [
    "--port",
    String(await freePort()),
    "--append-only",
    ".log",
    "--append-only",
    ".jsonl",
  ];
  served = await serveHere(files, args);
});
afterAll(async () => {
  clearInterval(growing);
  await served?.end();
  await rm(root, { recursive: true });
});

test.each(["app.log", "trace.jsonl"])("gets a file that grows meanwhile: %s", async (name) => {
  const path = join(root, name);
  const run = await runHere(["get", served.url, `files://local/${name}`, "-o", path]);
  expect(run.status, run.stderr).toBe(0);
  await expectPrefix(name, await readFile(path, "latin1"));
});

test("a link to such a file gives what is there when it opens, and models read its lines", async () => {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(served.url)));
  const args = { uri: "files://local/app.log" };
  const link = await client.callTool({ name: "get_download_link", arguments: args });
  const { download_url: url } = link.structuredContent as { download_url: string };
  const answer = await fetch(url);
  expect(answer.headers.get("etag")).toBeNull();
  await expectPrefix("app.log", await answer.text());
  const read = await client.callTool({ name: "read_file", arguments: args });
  expect(read.isError ?? false, JSON.stringify(read.content).slice(0, 500)).toBe(false);
  await client.close();
});

async function expectPrefix(name: string, saved: string): Promise<void> {
  expect(saved.length).toBeGreaterThanOrEqual(size);
  expect((await readFile(join(files, name), "latin1")).startsWith(saved)).toBe(true);
}
