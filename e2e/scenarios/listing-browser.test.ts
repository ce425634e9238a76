// @module-tag slow
// The list of files of `sluice serve` in a real browser: what its policy lets through, and what other pages can do.
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serveHere } from "../../packages/cli/test/run-here.ts";
import { hasBrowser, startBrowser } from "../bed/browser.ts";

if (!hasBrowser) console.log("listing-browser: there is no Chromium on this machine");

const hostileName = `<img src=x onerror="document.title='run'">.html`;
let root: string;
let origin: string;
let browser: Browser;
let stop: () => Promise<unknown>;
beforeAll(async () => {
  if (!hasBrowser) return;
  root = await mkdtemp(join(tmpdir(), "sluice-listing-"));
  await mkdir(join(root, "sub"));
  await writeFile(join(root, "sub/notes.txt"), "gr\u00fc\u00dfe from below");
  await writeFile(join(root, hostileName), "<script>document.title = 'run'</script>");
  const served = await serveHere(root);
  ({ origin } = new URL(served.url));
  stop = () => served.end();
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await stop?.();
  if (root) await rm(root, { recursive: true });
});

test.runIf(hasBrowser)(
  "a user clicks from the list to a folder to the text of a file",
  async () => {
    const page = await browser.newPage();
    const faults: string[] = [];
    page.on("console", (message) => {
      if (/security policy/i.test(message.text())) faults.push(message.text());
    });
    await page.goto(origin);
    // the style is let through by its digest
    const style = "getComputedStyle(document.querySelector('table')).borderCollapse";
    expect(await page.evaluate(style)).toBe("collapse");
    expect(await page.title()).toBe("/");
    await page.getByText("sub/").click();
    await page.getByText("notes.txt").click();
    await page.waitForURL(/\/mcp\/d\/[\w-]{32}$/);
    expect(await page.locator("body").innerText()).toBe("grüße from below");
    expect(faults).toEqual([]);
    await page.close();
  },
);

test.runIf(hasBrowser)(
  "a hostile name is a name, and a page of HTML is saved, not shown",
  async () => {
    const page = await browser.newPage();
    await page.goto(origin);
    const saving = page.waitForEvent("download");
    await page.getByText("<img src=x").click();
    await (await saving).cancel();
    expect(await page.title()).toBe("/");
    await page.close();
  },
);

test.runIf(hasBrowser)(
  "another page can neither frame the list, nor read it, nor have a link made",
  async () => {
    const target = `${origin}/open?file=sub%2Fnotes.txt`;
    const other = createServer((_, response) => {
      response.setHeader("content-type", "text/html");
      response.end(`<a href="${target}">click</a><iframe src="${origin}/"></iframe>`);
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    for (const host of ["127.0.0.1", "localhost"]) {
      const page = await browser.newPage();
      await page.goto(`http://${host}:${port}/`);
      const read = (url: string): Promise<string> =>
        page.evaluate(
          (given) =>
            fetch(given).then(
              () => "read",
              () => "refused",
            ),
          url,
        );
      expect([await read(`${origin}/`), await read(target)]).toEqual(["refused", "refused"]);
      expect(await page.frameLocator("iframe").locator("table").count()).toBe(0);
      const [response] = await Promise.all([
        page.waitForResponse((answer) => answer.url() === target),
        page.getByText("click").click(),
      ]);
      expect(response.status()).toBe(403);
      await page.close();
    }
    other.close();
  },
);
