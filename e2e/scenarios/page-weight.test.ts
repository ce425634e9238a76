// What a browser loads for the files page and the upload page together.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { serveHere } from "../../packages/cli/test/run-here.ts";

vi.setConfig({ testTimeout: 60_000 });

/** A page, and every file of this server that it names; with their sizes after gzip. */
async function weigh(url: string): Promise<ReadonlyMap<string, number>> {
  const html = await (await fetch(url)).text();
  const sizes = new Map([[url, gzipSync(html).length]]);
  for (const [, path = ""] of html.matchAll(/(?:href|src)="([^"]+\.(?:js|css|svg))"/g)) {
    const asset = new URL(path, url).href;
    const response = await fetch(asset);
    expect(response.status).toBe(200);
    sizes.set(asset, gzipSync(await response.text()).length);
  }
  return sizes;
}

test("the files page with its first files, and the upload page, are at most 60 KiB with gzip", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-weight-"));
  onTestFinished(() => rm(root, { recursive: true }));
  await mkdir(join(root, "files"));
  for (let at = 0; at < 120; at++) await writeFile(join(root, "files", `report ${at}.txt`), "");
  const served = await serveHere(join(root, "files"), ["--uploads", join(root, "inbox")]);
  onTestFinished(() => void served.end());
  const { origin } = new URL(served.url);
  const led = await fetch(`${origin}/`, { method: "POST", redirect: "manual" });
  const pages = await Promise.all([weigh(`${origin}/`), weigh(led.headers.get("location")!)]);
  const sizes = pages.flatMap((page) => [...page.values()]);
  // two pages, each with a script, a style and an icon
  expect(sizes).toHaveLength(8);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`files page and upload page: ${(total / 1024).toFixed(1)} KiB with gzip`);
  expect(total).toBeLessThan(60 * 1024);
});
