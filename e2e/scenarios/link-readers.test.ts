// @module-tag slow
// Programs that have never heard of MCP fetch a link: each gets every byte, in one go, in parts, after a cut.
import { createReadStream } from "node:fs";
import { mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { hasBrowser, startBrowser } from "../bed/browser.ts";
import { bytesOf, sha256 } from "../bed/content.ts";
import { hasForeign, runForeign } from "../bed/foreign-program.ts";
import { linkTo, startLinkSite } from "../bed/links.ts";
import { send } from "../bed/raw.ts";
import type { Site } from "../bed/site.ts";
import { createWire, type Wire } from "../bed/wire.ts";

const [hasCurl, hasWget, hasAria2, hasRclone] = [
  hasForeign("curl"),
  hasForeign("wget"),
  hasForeign("aria2c"),
  hasForeign("rclone"),
];
if (!hasBrowser) console.log("no Chromium: it opens no link (apt-get install chromium)");

const size = 8 * 1024 * 1024;
const content = bytesOf(size, "link");
const digest = sha256(content);

let site: Site;
let wire: Wire;
let folder: string;

beforeAll(async () => {
  site = await startLinkSite({
    files: { "big.bin": content, "notes.txt": "zwölf Zeilen\n" },
    front: async (target) => (wire = await createWire(target)),
  });
});
afterAll(() => site[Symbol.asyncDispose]());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-link-"));
  return () => rm(folder, { recursive: true, force: true });
});

const link = async (key = "big.bin"): Promise<string> => (await linkTo(site, key)).download_url;
const nameOf = (url: string): string => url.slice(url.lastIndexOf("/") + 1);

/** Runs a program that must succeed; resolves with what it printed. */
async function runs(command: string, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runForeign(command, args, { cwd: folder });
  expect(code, `${command} ${args.join(" ")}: ${stderr}${stdout}`).toBe(0);
  return stdout + stderr;
}

async function expectWhole(name: string): Promise<void> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(join(folder, name)), hash);
  expect(hash.digest("hex")).toBe(digest);
}

test.skipIf(!hasCurl)("curl saves it, under its name as well", async () => {
  const url = await link();
  await runs("curl", "-fsS", "-o", "plain", url);
  await expectWhole("plain");
  const { text, name } = await linkTo(site, "big.bin");
  await runs("sh", "-c", /^curl .*$/m.exec(text)![0]);
  expect(name).toBe("big.bin");
  await expectWhole("big.bin");
});

test.skipIf(!hasCurl)("curl -C - goes on after a cut", async () => {
  const url = await link();
  wire.cutAfter(3_000_000);
  const cut = await runForeign("curl", ["-fsS", "-o", "part", url], { cwd: folder });
  expect(cut.code).not.toBe(0);
  const kept = (await stat(join(folder, "part"))).size;
  expect(kept).toBeGreaterThan(0);
  expect(kept).toBeLessThan(size);
  const before = wire.sent;
  await runs("curl", "-fsS", "-C", "-", "-o", "part", url);
  expect(wire.sent - before).toBeLessThan(size - kept + 10_000);
  await expectWhole("part");
});

test.skipIf(!hasWget)("wget -c goes on after a cut", async () => {
  const url = await link();
  wire.cutAfter(3_000_000);
  await runs("wget", "-q", "-c", "--tries=5", "--waitretry=0", url);
  await expectWhole(nameOf(url));
  await truncate(join(folder, nameOf(url)), 5_000_000);
  await runs("wget", "-q", "-c", url);
  await expectWhole(nameOf(url));
});

test.skipIf(!hasWget)("wget -N transfers nothing the second time", async () => {
  const url = await link();
  await runs("wget", "-q", "-N", url);
  await expectWhole(nameOf(url));
  const before = wire.sent;
  const said = await runs("wget", "-N", url);
  expect(said).toContain("304 Not Modified");
  expect(wire.sent - before).toBeLessThan(10_000);
});

test.skipIf(!hasAria2)("aria2 takes it over eight connections at once", async () => {
  const args = ["-x8", "-s8", "-k1M", "--quiet", "--file-allocation=none", "-o", "out"];
  await runs("aria2c", ...args, await link());
  await expectWhole("out");
});

test.skipIf(!hasRclone)(
  "rclone takes it by copyurl, and in parts as a remote of its own",
  async () => {
    const url = await link();
    await runs("rclone", "copyurl", url, "copied");
    await expectWhole("copied");
    await runs("rclone", "copyurl", "--auto-filename", "--header-filename", url, ".");
    await expectWhole("big.bin");
    const cut = url.lastIndexOf("/") + 1;
    const parts = ["--multi-thread-streams=4", "--multi-thread-cutoff=1M"];
    const remote = [`--http-url=${url.slice(0, cut)}`, `:http:${url.slice(cut)}`];
    await runs("rclone", "copyto", ...parts, ...remote, "remote");
    await expectWhole("remote");
    const before = wire.sent;
    await runs("rclone", "copyto", ...parts, ...remote, "remote");
    expect(wire.sent - before).toBeLessThan(10_000);
  },
);

test.skipIf(!hasBrowser)("Chromium saves a file, and again, and shows a text", async () => {
  const browser = await startBrowser();
  try {
    const page = await browser.newPage();
    const url = await link();
    for (const name of ["first", "second"]) {
      const downloads = page.waitForEvent("download");
      await expect(page.goto(url)).rejects.toThrow("Download is starting");
      const download = await downloads;
      expect(download.suggestedFilename()).toBe("big.bin");
      await download.saveAs(join(folder, name));
      await expectWhole(name);
    }
    const shown = await linkTo(site, "notes.txt", { disposition: "inline" });
    await page.goto(shown.download_url);
    expect(await page.locator("body").innerText()).toBe("zwölf Zeilen\n");
  } finally {
    await browser.close();
  }
});

test("thirty ranges and the whole of it, twice", async () => {
  const url = await link();
  for (let look = 0; look < 2; look++) {
    for (let part = 0; part < 30; part++) {
      const start = Math.floor((size / 30) * part);
      const { status, bytes } = await send("GET", url, {
        headers: { range: `bytes=${start}-${start + 9_999}` },
      });
      expect([status, bytes.equals(content.subarray(start, start + 10_000))]).toEqual([206, true]);
    }
    const { status, bytes } = await send("GET", url);
    expect([status, sha256(bytes)]).toEqual([200, digest]);
  }
});

test("the comparison of bytes finds one that differs", async () => {
  const spoilt = Buffer.from(content);
  spoilt[size - 1]! ^= 1;
  await writeFile(join(folder, "spoilt"), spoilt);
  await expect(expectWhole("spoilt")).rejects.toThrow(digest.slice(0, 20));
  expect(await readdir(folder)).toEqual(["spoilt"]);
  expect(await readFile(join(folder, "spoilt"))).toHaveLength(size);
});
