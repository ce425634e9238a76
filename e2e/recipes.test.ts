// @module-tag slow
// The programs of docs/recipes, each run as its page says.
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, beforeEach, expect, inject, test } from "vitest";
import { startS3StandIn } from "../packages/storage-s3/test/stand-in/stand-in.ts";
import { askForeign } from "../packages/transport-http/test/foreign-requests.ts";
import { moveExample } from "./bed/changed-program.ts";
import { freePort, untilAnswered } from "./bed/listen.ts";
import { findPython } from "./bed/python.ts";

const run = promisify(execFile);

let folder = "";
let server: ChildProcess | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-recipes-"));
});
afterEach(async () => {
  if (server && server.exitCode === null && server.kill()) await once(server, "exit");
  server = undefined;
  await rm(folder, { recursive: true });
});

/** Starts a program of a recipe in a folder with these files; gives its endpoint. */
async function start(
  name: string,
  files: Readonly<Record<string, string | Uint8Array>>,
  { args = [], env = {} }: { readonly args?: readonly string[]; readonly env?: object } = {},
): Promise<string> {
  for (const part of ["files", "reports", "uploads"]) await mkdir(join(folder, part));
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const program = await moveExample(`e2e/examples/${name}.ts`, endpoint);
  server = spawn(process.execPath, [program, ...args], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit"],
  });
  await untilAnswered(endpoint);
  return endpoint;
}

/** The text and the structure of a tool's result. */
async function callTool(
  endpoint: string,
  name: string,
  args: Record<string, unknown> = {},
): Promise<{ readonly text: string; readonly values: Readonly<Record<string, string>> }> {
  const client = new Client({ name: "host", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { content, structuredContent } = (await client.callTool({
    name,
    arguments: args,
  })) as unknown as {
    readonly content: readonly [{ readonly text: string }];
    readonly structuredContent?: Readonly<Record<string, string>>;
  };
  await client.close();
  return { text: content[0].text, values: structuredContent ?? {} };
}

test("the recipe for a report links to what its tool wrote", async () => {
  const endpoint = await start("report", {});
  const { text } = await callTool(endpoint, "sales_report", { month: "2026-11" });
  const [, url = ""] = /^sales-2026-11-\w{8}\.csv: (\S+\/d\/[\w-]{32})$/.exec(text) ?? [];
  expect(await (await fetch(url)).text()).toBe("day,total\n2026-11-01,7\n");
});

test("the recipe for a table counts its rows, and takes nothing else", async () => {
  const endpoint = await start("table", {});
  const { values } = await callTool(endpoint, "describe_table");
  const put = (name: string, body: string): Promise<Response> =>
    fetch(`${values["upload_url"]}${name}`, { method: "PUT", body });
  expect((await put("sales.pdf", "%PDF-1.4")).status).toBe(415);
  expect((await put("sales.csv", "month,total\n2026-10,5\n2026-11,7\n")).status).toBe(201);
  const { text } = await callTool(endpoint, "describe_table", { upload_id: values["upload_id"] });
  expect(text).toBe("sales.csv: 2 rows of month,total");
});

test("tus-js-client sends to the slot of the recipe for a table", async () => {
  const endpoint = await start("table", {});
  const { values } = await callTool(endpoint, "describe_table");
  const table = `month,total\n${"2026-11,7\n".repeat(2_000_000)}`;
  await writeFile(join(folder, "sales.csv"), table);
  const args = [
    inject("programs")["e2e/examples/send-tus.ts"]!,
    values["upload_url"]!,
    "sales.csv",
  ];
  const { stdout } = await run(process.execPath, args, { cwd: folder, timeout: 60_000 });
  expect(stdout).toBe("sent\n");
  const { text } = await callTool(endpoint, "describe_table", { upload_id: values["upload_id"] });
  expect(text).toBe("sales.csv: 2000000 rows of month,total");
});

const hasUnzip = spawnSync("unzip", ["-v"]).status === 0;
if (!hasUnzip) console.log("no unzip: the recipe for an archive is not tried");

test.runIf(hasUnzip)("the recipe for an archive gives a folder as a ZIP", async () => {
  const photos = { "files/photos/a.jpg": "one", "files/photos/b.jpg": "two", "files/c.txt": "no" };
  const endpoint = await start("archive", photos);
  const uri = "archives://local/photos.zip";
  const { values } = await callTool(endpoint, "get_download_link", { uri });
  const archive = await (await fetch(values["download_url"]!)).arrayBuffer();
  await writeFile(join(folder, "photos.zip"), new Uint8Array(archive));
  const { stdout } = await run("unzip", ["-Z1", join(folder, "photos.zip")]);
  const command = inject("programs")["packages/sluice/src/main.ts"]!;
  const args = [command, "get", endpoint, uri, "--yes", "-o", "copy.zip"];
  await run(process.execPath, args, { cwd: folder, timeout: 60_000 });
  expect((await run("unzip", ["-Z1", join(folder, "copy.zip")])).stdout).toBe(stdout);
  expect(stdout.trim().split("\n").toSorted()).toEqual(["a.jpg", "b.jpg"]);
});

test("the recipe for a bucket redirects to a presigned URL", async () => {
  const store = await startS3StandIn();
  const { bucket, credentials, endpoint: at } = store;
  const content = randomBytes(3_000_000);
  store.put("reports/big.bin", content);
  const env = {
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  };
  const endpoint = await start("bucket", {}, { args: [bucket, at], env });
  expect((await askForeign(endpoint)).wrong).toEqual([]);
  const command = inject("programs")["packages/sluice/src/main.ts"]!;
  const args = [command, "get", endpoint, "files://local/big.bin", "-o", "copies/"];
  const settings = { cwd: folder, timeout: 60_000 };
  await expect(run(process.execPath, args, settings)).rejects.toThrow("--trust");
  const seen = store.requests.length;
  await run(process.execPath, [...args, "--trust", new URL(at).origin], settings);
  expect(content.equals(await readFile(join(folder, "copies/big.bin")))).toBe(true);
  const urls = store.requests.slice(seen).map(({ url }) => url);
  expect(urls).toContainEqual(expect.stringContaining("X-Amz-Signature="));
  await store[Symbol.asyncDispose]();
});

const python = findPython();

test.runIf(python)("the client in Python saves every byte, and reports errors", async () => {
  const content = randomBytes(3_000_000);
  const endpoint = await start("archive", { "files/big.bin": content });
  const script = fileURLToPath(new URL("examples/stream.py", import.meta.url));
  const save = (uri: string) => run(python!, [script, endpoint, uri, "copy.bin"], { cwd: folder });
  await expect(save("files://local/none.bin")).rejects.toThrow("no bytes");
  const { stdout } = await save("files://local/big.bin");
  expect(stdout).toMatch(/^copy\.bin 3000000 [0-9a-f]{64}\n$/);
  expect(content.equals(await readFile(join(folder, "copy.bin")))).toBe(true);
});
