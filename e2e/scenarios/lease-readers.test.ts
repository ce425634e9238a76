// @module-tag slow
import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { AuditRecord } from "@sluice/server";
import { withCache } from "@sluice/storage";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bytesOf } from "../bed/content.ts";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { startSite, type Site } from "../bed/site.ts";

const run = promisify(execFile);
const hasPython = spawnSync("python3", ["--version"]).status === 0;
const hasCurl = spawnSync("curl", ["--version"]).status === 0;
if (!hasPython) console.log("no Python: zipfile reads no lease (apt-get install python3)");
if (!hasCurl) console.log("no curl: it resumes no lease (apt-get install curl)");

const program = (name: string): string =>
  fileURLToPath(new URL(`../bed/programs/${name}`, import.meta.url));
const content = bytesOf(1_048_576, "lease");
let site: Site;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-lease-"));
  const files: Record<string, Uint8Array> = { "a.bin": content };
  if (hasPython) {
    await run("python3", [program("make_zip.py"), join(folder, "a.zip"), "40"]);
    files["a.zip"] = await readFile(join(folder, "a.zip"));
  }
  site = await startSite({ files, sluice: { delivery: "downloadUrl", grant: { use: "lease" } } });
});
afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

async function link(key = "a.bin"): Promise<string> {
  const params = { uri: `files://site/${key}` };
  const { message } = await call(site.url, "resources/stream", params, { streaming: {} });
  return message?.result?.["downloadUrl"] as string;
}

const range = (url: string, start: number, end: number): Promise<RawAnswer> =>
  send("GET", url, { headers: { range: `bytes=${start}-${end - 1}` } });

test.skipIf(!hasPython)(
  "Python's zipfile reads an archive over a lease, from its end",
  async () => {
    const { stdout } = await run("python3", [program("read_zip.py"), await link("a.zip")]);
    const { members, requests } = JSON.parse(stdout) as { members: object; requests: number };
    expect(Object.values(members)).toEqual(Array.from({ length: 40 }, () => 5_000));
    expect(requests).toBeGreaterThan(100);
  },
);

test.skipIf(!hasCurl)("curl resumes what it has of a lease, and takes it again", async () => {
  const [url, path] = [await link(), join(folder, "a.bin")];
  for (const kept of [0, 1_048_575, 700_000]) {
    await writeFile(path, content);
    await truncate(path, kept);
    await run("curl", ["--silent", "--fail", "-C", "-", "-o", path, url]);
    expect((await readFile(path)).equals(content)).toBe(true);
  }
});

test("a viewer that breaks off its first request and reads from the end sees all of a lease", async () => {
  const url = await link();
  for (let look = 0; look < 2; look++) {
    const first = get(url);
    const [answer] = (await once(first, "response")) as [NodeJS.ReadableStream];
    answer.on("error", () => {});
    first.on("error", () => {});
    first.destroy();
    const blocks: Buffer[] = [];
    for (let end = content.length; end > 0; end -= 65_536) {
      const { status, bytes } = await range(url, end - 65_536, end);
      expect(status).toBe(206);
      blocks.unshift(bytes);
    }
    expect(Buffer.concat(blocks).equals(content)).toBe(true);
  }
});

test("a lease allows a thousand small ranges, and a look at the whole before and after", async () => {
  const url = await link();
  expect((await send("GET", url)).bytes.equals(content)).toBe(true);
  for (let n = 0; n < 1_000; n++) {
    const start = (n * 7_919) % (content.length - 100);
    const { status, bytes } = await range(url, start, start + 100);
    expect([status, bytes.equals(content.subarray(start, start + 100))]).toEqual([206, true]);
  }
  expect((await send("GET", url)).bytes.equals(content)).toBe(true);
});

test("a lease gives four times the object and a MiB, and not a byte more", async () => {
  const url = await link();
  for (let n = 0; n < 5; n++) expect((await send("GET", url)).status).toBe(200);
  for (const end of [1, content.length]) expect((await range(url, 0, end)).status).toBe(404);
  expect((await send("HEAD", url)).status).toBe(404);
});

test("a reader that breaks off within a chunk again and again gets no more out of a lease", async () => {
  // one chunk, which is more than the system keeps for a reader
  const large = new Uint8Array(24 * 1_048_576);
  const records: AuditRecord[] = [];
  await using memory = await startSite({
    files: { "a.bin": large },
    storage: (files) => withCache(files, { maxBytes: 2 ** 26, maxObjectBytes: 2 ** 25 }),
    sluice: {
      delivery: "downloadUrl",
      grant: { use: "lease" },
      audit: (record) => void records.push(record),
    },
  });
  const params = { uri: "files://site/a.bin" };
  const { message } = await call(memory.url, "resources/stream", params, { streaming: {} });
  const url = message?.result?.["downloadUrl"] as string;
  const { port, pathname } = new URL(url);
  for (let n = 1; n <= 4; n++) {
    const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
    let taken = 0;
    // leaving the loop breaks the connection
    for await (const chunk of socket) if ((taken += (chunk as Buffer).length) > 4_194_304) break;
    await expect.poll(() => records.filter(({ outcome }) => outcome === "aborted").length).toBe(n);
  }
  expect((await send("GET", url)).status).toBe(404);
});
