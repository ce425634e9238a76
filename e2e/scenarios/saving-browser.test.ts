// @module-tag slow
import { createMemoryBackend } from "@sluice/storage";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serve, type Served } from "../../packages/transport-http/test/serve.ts";
import { hasBrowser, servePage, startBrowser } from "../bed/browser.ts";
import { bytesOf, sha256 } from "../bed/content.ts";
import type { Listening } from "../bed/listen.ts";
import type { SavingPage } from "../bed/programs/saving-page.ts";

if (!hasBrowser)
  console.log("no Chromium: saving in a page is not tried (apt-get install chromium)");

// more than browsers and systems keep for a reader
const content = bytesOf(32_000_000, "page");
const uri = "files://demo/disk.img";

/** What the page of the test has as a global. */
declare const page: SavingPage;

describe.skipIf(!hasBrowser)("a page of another origin in a browser", () => {
  let browser: Browser;
  let tab: Page;
  let pages: Listening;
  beforeAll(async () => {
    const issue = async (): Promise<string> => "";
    [browser, pages] = await Promise.all([
      startBrowser(),
      servePage(issue, "programs/saving-page.ts"),
    ]);
    tab = await browser.newPage();
    await tab.goto(pages.origin);
  });
  afterAll(async () => {
    await browser?.close();
    await pages?.close();
  });

  const start = (origins: readonly string[], idleMs = 30_000): Promise<Served> =>
    serve({
      sluice: { storage: createMemoryBackend({ "disk.img": content }) },
      http: { origins },
      node: { idleMs },
    });
  const begin = (url: string, isPaused: boolean): Promise<void> =>
    tab.evaluate((args) => page.begin(...args), [url, uri, isPaused] as const);
  const progress = () => tab.evaluate(() => page.progress());
  const outcome = () => tab.evaluate(() => page.outcome());

  test("saves a resource to disk and shows how far it is, where `origins` has it", async () => {
    const { url } = await start([pages.origin]);
    await begin(url, false);
    expect(await outcome()).toBe(sha256(content));
    expect(await progress()).toEqual([content.length, content.length]);
  });

  test("pauses, and resumes with every byte right, also when the server gave the reader up meanwhile", async () => {
    const { url, records } = await start([pages.origin], 300);
    await begin(url, true);
    await expect.poll(progress).not.toEqual([0, content.length]);
    await expect
      .poll(() => records.filter(({ outcome: how }) => how === "aborted"))
      .not.toHaveLength(0);
    const [paused] = await progress();
    expect(paused).toBeLessThan(content.length / 2);
    await tab.evaluate(() => page.resume());
    expect(await outcome()).toBe(sha256(content));
  });

  test("leaves the file as it was when the user cancels", async () => {
    const { url } = await start([pages.origin]);
    await begin(url, true);
    await expect.poll(progress).not.toEqual([0, content.length]);
    await tab.evaluate(() => page.cancel());
    await tab.evaluate(() => page.resume());
    expect(await outcome()).toBe("AbortError, 0 bytes");
  });

  test("gets nothing where `origins` has another one", async () => {
    const { url } = await start(["https://app.example.com"]);
    await expect(begin(url, false)).rejects.toThrow("fetch");
  });
});
