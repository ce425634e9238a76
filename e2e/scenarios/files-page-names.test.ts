// @module-tag slow
// Hostile names on the files page, in a real browser.
import { createMemoryBackend } from "@sluice/storage";
import { createSluice } from "@sluice/server";
import { serve } from "@sluice/transport-http/node";
import { McpServer } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { hostileNames } from "../../packages/transport-http/test/hostile-names.ts";
import { freePort } from "../../packages/cli/test/sluice.ts";
import { hasBrowser, startBrowser } from "../bed/browser.ts";

if (!hasBrowser) console.log("files-page-names: there is no Chromium on this machine");

/** True for the server, what a page has made of its bytes, and the browser's own viewer of PDF. */
function isOurs(url: string, origin: string): boolean {
  const { protocol } = new URL(url);
  return (
    url.startsWith(`${origin}/`) ||
    url.startsWith(`blob:${origin}/`) ||
    protocol === "chrome-extension:" ||
    protocol === "chrome:"
  );
}

test.runIf(hasBrowser)(
  "hostile names are names: nothing runs, no other origin is asked, none reads as another",
  async () => {
    const port = await freePort();
    const endpoint = `http://127.0.0.1:${port}/mcp`;
    const content = Object.fromEntries(
      hostileNames.flatMap(([name]) => [
        [name, "<script>document.title = 'run'</script>"],
        [`in/${name}/x.txt`, "x"],
      ]),
    );
    const storage = createMemoryBackend(content);
    const sluice = createSluice({ storage, baseUri: "files://demo/", endpoint, keys: "ephemeral" });
    const create = (): McpServer =>
      sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
    const running = await serve(sluice, create, { filesPage: { name: "Demo" } });
    const browser = await startBrowser();
    try {
      const page = await browser.newPage();
      page.setDefaultTimeout(20_000);
      const { origin } = new URL(endpoint);
      const faults: string[] = [];
      page.on("dialog", (box) => faults.push(box.message()));
      page.on("pageerror", ({ message }) => faults.push(message));
      page.on("request", (request) => {
        if (!isOurs(request.url(), origin)) faults.push(request.url());
      });
      const expected = hostileNames.map(([, shown]) => shown).toSorted();
      for (const folder of ["files://demo/", "files://demo/in/"]) {
        await page.goto(`${origin}/?${new URLSearchParams({ folder }).toString()}`);
        await page.getByRole("searchbox").waitFor();
        const shown = await page.locator("#files .name bdi").allTextContents();
        expect(shown.filter((name) => name !== "in").toSorted()).toEqual(expected);
        expect(await page.title()).toMatch(/^(?:Demo|in – Demo)$/);
      }
      // each file and folder is itself behind its name, and in the heading of its preview or page
      await page.goto(origin);
      const links = page.locator("#files tr:not([data-folder]) td:first-child a");
      for (let at = 0; at < hostileNames.length; at++) {
        const name = await links.nth(at).locator("bdi").textContent();
        await links.nth(at).click();
        await page.locator("dialog[open] .body > :not(:text('Loading'))").first().waitFor();
        expect(await page.locator("dialog h2").textContent()).toBe(name);
        await page.getByRole("button", { name: "Close" }).click();
      }
      expect(await page.title()).toBe("Demo");
      for (const [name, shown] of hostileNames) {
        const folder = `files://demo/in/${encodeURIComponent(name)}/`;
        await page.goto(`${origin}/?${new URLSearchParams({ folder }).toString()}`);
        expect(await page.locator("h1").textContent()).toBe(shown);
      }
      expect(faults).toEqual([]);
    } finally {
      await browser.close();
      await running.close({ deadlineMs: 0 });
    }
  },
  240_000,
);
