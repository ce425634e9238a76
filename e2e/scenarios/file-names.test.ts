// @module-tag slow
import { readdir } from "node:fs/promises";
import { streamResource } from "@sluice/client";
import { createMemoryBackend } from "@sluice/storage";
import { parse } from "content-disposition";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { services } from "../bed/backends.ts";
import { hasBrowser, startBrowser } from "../bed/browser.ts";
import { connect } from "../bed/clients.ts";
import { call, send } from "../bed/raw.ts";
import { baseUri, startSite, type Site } from "../bed/site.ts";

if (!hasBrowser)
  console.log("no Chromium: names are not saved by a browser (apt-get install chromium)");

const family = "👨‍👩‍👧‍👦";
/** Names that a file system takes, with at most 255 bytes. */
const names = [
  `${"报".repeat(50)}.pdf`,
  `${"报告".repeat(41)}报.pdf`,
  `${family.repeat(10)}.txt`,
  `${"a".repeat(251)}.bin`,
  `${"é".repeat(125)}.txt`,
  'he said "yes".txt',
  "it's 100% <new>; a|b? *: 50%25.txt",
  "می‌خواهم.txt",
  "e\u0301.txt",
  "a=b,c@d&e+f~g#h.txt",
  "naïve plan (2).tar.gz",
] as const;
const uriOf = (name: string): string => `${baseUri}${encodeURIComponent(name)}`;

const start = (delivery: "direct" | "downloadUrl"): Promise<Site> =>
  startSite({
    storage: () => createMemoryBackend(Object.fromEntries(names.map((name) => [name, "x"]))),
    sluice: { delivery },
  });

/** The header of an answer with the bytes. */
async function dispositionOf(site: Site, name: string): Promise<string> {
  const answer = await call(site.url, "resources/stream", { uri: uriOf(name) }, { streaming: {} });
  const url = answer.message?.result?.["downloadUrl"] as string | undefined;
  const { headers } = url === undefined ? answer : await send("GET", url);
  return headers["content-disposition"] ?? "";
}

test.each(["direct", "downloadUrl"] as const)(
  "every name arrives as it is in filename*, and a safe ASCII one in filename (%s)",
  async (delivery) => {
    await using site = await start(delivery);
    for (const name of names) {
      const header = await dispositionOf(site, name);
      expect(parse(header).parameters["filename"], header).toBe(name);
      expect(header).toMatch(/^attachment; filename="[\w .()'=,@&+~#;-]{1,255}"(?:; |$)/);
    }
  },
);

test.each(["s3", "azure-blob"] as const)(
  "a presigned URL of %s names the file as it is",
  async (service) => {
    await using store = await services[service]();
    await using site = await startSite({
      storage: () => store.backend,
      sluice: { delivery: "redirect", redirectOrigins: [store.store.origin] },
    });
    for (const name of names) {
      await store.put(name, Buffer.from("x"));
      const { status, headers } = await call(
        site.url,
        "resources/stream",
        { uri: uriOf(name) },
        { streaming: { accept: ["redirect"] } as never },
      );
      expect([status, name]).toEqual([302, name]);
      const { headers: given } = await send("GET", String(headers.location));
      expect(parse(given["content-disposition"]!).parameters["filename"]).toBe(name);
    }
  },
);

test.skipIf(process.platform === "win32")(
  "a client saves every name as it is, and a second file of the longest under a number",
  async () => {
    await using site = await start("downloadUrl");
    const client = await connect("SDK v2, modern", site.url);
    for (const name of [...names, names[1]]) {
      const stream = await streamResource(client, uriOf(name));
      await stream.saveTo(`${site.target}/`);
    }
    await client.close();
    const second = `${"报告".repeat(41)} (1).pdf`;
    expect((await readdir(site.target)).toSorted()).toEqual([...names, second].toSorted());
  },
);

describe.skipIf(!hasBrowser)("a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  test("saves every name as it is, but for what it never puts into a name", async () => {
    await using site = await start("downloadUrl");
    const page = await browser.newPage();
    for (const name of names) {
      const { message } = await call(
        site.url,
        "resources/stream",
        { uri: uriOf(name) },
        { streaming: {} },
      );
      const coming = page.waitForEvent("download");
      await page.goto(String(message?.result?.["downloadUrl"])).catch(() => {});
      const download = await coming;
      expect(download.suggestedFilename()).toBe(
        name.normalize().replace(/["<>|?*:\u200c\u200d]/g, "_"),
      );
      await download.delete();
    }
    await page.close();
  });
});
