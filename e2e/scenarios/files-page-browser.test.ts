// @module-tag slow
// The files page in a real browser: what a person can do on it, what its policy lets through, and what other pages can do.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { serveHere } from "../../packages/cli/test/run-here.ts";
import { hasBrowser, startBrowser } from "../bed/browser.ts";
import { ordinaryFiles, writeFiles } from "../bed/files-page-files.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
if (!hasBrowser) console.log("files-page-browser: there is no Chromium on this machine");

/** Where the pictures go, for people to look at. */
const shots = process.env["SLUICE_SHOTS"] ?? join(tmpdir(), "sluice-files-page");

describe.skipIf(!hasBrowser)("the files page in a browser", () => {
  let root: string;
  let origin: string;
  let browser: Browser;
  let page: Page;
  let stop: () => Promise<unknown>;
  /** Errors of the page, and what its policy refused. */
  let complaints: string[] = [];
  /** Requests to other origins. */
  let strays: string[] = [];

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "sluice-files-page-"));
    const files = join(root, "Shared files");
    await writeFiles(files, ordinaryFiles);
    const many = Array.from({ length: 1_500 }, (_, at) => [
      `many/report ${at + 1}.txt`,
      "x".repeat(at % 7),
    ]);
    await writeFiles(files, Object.fromEntries(many));
    await mkdir(shots, { recursive: true });
    const served = await serveHere(files, ["--uploads", join(root, "inbox")]);
    ({ origin } = new URL(served.url));
    stop = () => served.end();
    browser = await startBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await stop?.();
    if (root) await rm(root, { recursive: true });
  });
  afterEach(async () => {
    await page.context().close();
    assert.deepEqual([complaints, strays], [[], []]);
  });

  const folder = (path: string): string =>
    `/?folder=${encodeURIComponent(`files://local/${path}`)}`;
  const row = (name: string) => page.locator("#files td:first-child a", { hasText: name });
  const dialog = () => page.locator("dialog[open]");
  const count = () => page.locator("#count");

  async function visit(target: string, options: BrowserContextOptions = {}): Promise<void> {
    [complaints, strays] = [[], []];
    page = await (await browser.newContext(options)).newPage();
    page.setDefaultTimeout(20_000);
    page.on("pageerror", ({ message }) => complaints.push(message));
    page.on("dialog", (box) => complaints.push(`dialog ${box.message()}`));
    page.on("console", (line) => {
      if (/security policy|trusted/i.test(line.text())) complaints.push(line.text());
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(origin) && !/^(?:blob|data|chrome|chrome-extension):/.test(url))
        strays.push(url);
    });
    await page.goto(origin + target);
  }

  async function preview(name: string): Promise<void> {
    await row(name).click();
    const content =
      ":is(img, audio, video, iframe, pre, table), .notice:not(:text-is('Loading …'))";
    await dialog().locator(`.body > ${content}`).first().waitFor();
  }

  test("a user clicks from a folder to a folder to the text of a file, and back up", async () => {
    await visit("/");
    expect(await page.title()).toBe("Shared files");
    await row("Reports").click();
    await row("2026").click();
    expect(await page.title()).toBe("2026 – Shared files");
    await preview("summary.md");
    expect(await dialog().locator("pre").innerText()).toContain("All is *well*.");
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("link", { name: "Reports" }).click();
    await page.getByRole("link", { name: "Shared files" }).click();
    expect(await page.title()).toBe("Shared files");
  });

  test.each([
    ["sunset.png", "img", "480 px"],
    ["drawing.svg", "img", "200 px"],
    ["chime.wav", "audio", ""],
    ["notes.txt", "pre", "The first line."],
    ["README.md", "pre", "# Files"],
    ["page.html", "pre", "<script>document.title = 'run'</script>"],
    ["accounts.csv", "table", "name\tamount\nMiller; Sons\t12\n<b>Bold</b>\t13"],
    ["dot.gif", "img", "1 px"],
    ["dot.webp", "img", "1 px"],
    ["clip.webm", "video", ""],
    ["settings.json", "pre", `{ "theme": "dark" }`],
    ["manual.pdf", "iframe", ""],
    ["backup.zip", "p", "There is no preview of this kind of file."],
  ])("%s is shown as %s, and runs nothing", async (name, tag, shown) => {
    await visit("/");
    await preview(name);
    const content = dialog().locator(`.body > ${tag}`);
    const width = `document.querySelector("dialog img").naturalWidth + " px"`;
    const seen = tag === "img" ? await page.evaluate(width) : await content.innerText();
    expect(seen).toContain(shown);
    expect(await page.title()).toBe("Shared files");
  });

  test("a document is shown by the viewer of the browser, and let go of with its preview", async () => {
    await visit("/");
    await preview("manual.pdf");
    const viewers = () =>
      page.frames().filter((frame) => frame.url().startsWith("chrome-extension:"));
    await vi.waitFor(() => expect(viewers()).toHaveLength(1), 20_000);
    await page.getByRole("button", { name: "Next file" }).click();
    await dialog().locator("iframe").waitFor({ state: "detached" });
    await vi.waitFor(() => expect(viewers()).toEqual([]), 20_000);
  });

  test("pictures are small in the list, and one that would fill the memory is not unpacked", async () => {
    await visit("/");
    const mark = (name: string) => page.locator("#files tr", { hasText: name }).locator(".mark");
    for (const name of ["dot.gif", "dot.webp", "sunset.png"]) {
      await mark(name).scrollIntoViewIfNeeded();
      await mark(name).locator("canvas").waitFor();
    }
    // what the middle of the picture has, and not nothing
    const middle = `[...document.querySelector("[data-name='sunset.png'] canvas").getContext("2d").getImageData(40, 28, 1, 1).data].join()`;
    expect(await page.evaluate(middle)).toBe("89,89,89,255");
    for (const name of ["bomb.png", "not a picture.png", "notes.txt"])
      expect(await mark(name).locator("canvas").count()).toBe(0);
    expect(await mark("bomb.png").textContent()).toBe("PNG");
  });

  test("a file that is gone is said to be gone, and loads when it is back", async () => {
    const file = join(root, "Shared files/fleeting.txt");
    await writeFile(file, "here");
    await visit("/");
    await rm(file);
    await preview("fleeting");
    expect(await dialog().locator(".body").innerText()).toContain("moved or deleted");
    await writeFile(file, "back");
    await page.getByRole("button", { name: "Try again" }).click();
    await dialog().locator("pre", { hasText: "back" }).waitFor();
    await rm(file);
  });

  test("a copied link opens the file, and says until when it does", async () => {
    await visit("/", { permissions: ["clipboard-read", "clipboard-write"] });
    await preview("notes.txt");
    await page.getByRole("button", { name: "Copy link" }).click();
    await page
      .getByText(/^Link copied. It works until \d\d:\d\d, for everyone who has it.$/)
      .waitFor();
    const link = await page.evaluate("navigator.clipboard.readText()");
    expect(await (await fetch(link as string)).text()).toContain("The first line.");
  });

  test("files are downloaded from the list, with and without a script", async () => {
    for (const javaScriptEnabled of [true, false]) {
      await visit("/", { javaScriptEnabled });
      const saving = page.waitForEvent("download");
      await page.getByRole("link", { name: "Download notes.txt" }).click();
      const path = await (await saving).path();
      expect(await readFile(path, "utf8")).toBe(ordinaryFiles["notes.txt"]);
      if (javaScriptEnabled) await page.context().close();
    }
    await row("Reports").click();
    expect(await page.title()).toBe("Reports – Shared files");
    expect(await page.getByRole("searchbox").count()).toBe(0);
    await page.goto(origin + folder("many/"));
    await page.getByRole("link", { name: "Show more" }).click();
    await vi.waitFor(
      async () => expect(await page.locator("#files tbody tr").count()).toBeGreaterThan(500),
      20_000,
    );
  });

  test("all pages of a folder are loaded, in the order of names, and searched and sorted", async () => {
    await visit(folder("many/"));
    await count().getByText("1,500 files, 4.5 kB").waitFor();
    const names = () => page.locator("#files .name bdi").allTextContents();
    const all = Array.from({ length: 1_500 }, (_, at) => `report ${at + 1}.txt`);
    await vi.waitFor(async () => expect(await names()).toEqual(all), 20_000);
    await page.getByRole("searchbox").fill("REPORT 99");
    await count().getByText("11 of 1,500 match").waitFor();
    expect((await names())[0]).toBe("report 99.txt");
    await page.getByRole("button", { name: "Size" }).click();
    const sizes = await page.locator("#files td:nth-child(2)").allTextContents();
    expect(sizes).toEqual(sizes.toSorted().toReversed());
    expect(await page.getByRole("columnheader", { name: "Size" }).getAttribute("aria-sort")).toBe(
      "descending",
    );
    await page.getByRole("searchbox").fill("nothing is called so");
    await page.getByText("No name matches.").waitFor();
  });

  test("keys suffice: search, move, open, go on, close", async () => {
    await visit("/");
    await page.getByRole("searchbox").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type(".txt");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const focused = () => page.evaluate("document.activeElement.textContent");
    const second = await focused();
    await page.keyboard.press("Enter");
    await dialog().waitFor();
    const first = await dialog().locator("h2").innerText();
    await page.keyboard.press("ArrowRight");
    await vi.waitFor(async () => expect(await dialog().locator("h2").innerText()).not.toBe(first));
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    expect(await focused()).toBe(second);
  });

  test("files that are sent lie in the folder of --uploads", async () => {
    await visit("/");
    await page.getByRole("button", { name: "Send files" }).click();
    await page.getByRole("heading", { name: "Send files" }).waitFor();
    const buffer = Buffer.from("sent from the page");
    await page
      .locator("input[type=file]")
      .setInputFiles({ name: "new.txt", mimeType: "text/plain", buffer });
    await page.getByText("sent", { exact: false }).first().waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("heading", { name: "All done" }).waitFor();
    const saved = () => readFile(join(root, "inbox/new.txt"), "utf8");
    await vi.waitFor(async () => expect(await saved()).toBe("sent from the page"), 10_000);
  });

  /** Drops files on the list, as from a folder of the system. */
  async function drop(files: Readonly<Record<string, string>>): Promise<void> {
    await page.evaluate(`(() => {
      const dataTransfer = new DataTransfer();
      for (const [name, text] of Object.entries(${JSON.stringify(files)}))
        dataTransfer.items.add(new File([text], name, { type: "text/plain" }));
      for (const kind of ["dragover", "drop"])
        document.querySelector("#files").dispatchEvent(
          new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }),
        );
    })()`);
  }

  test("files that are dropped on the list are sent from a panel, and more of them until Done", async () => {
    await visit("/");
    await page.getByRole("searchbox").waitFor();
    await drop({ "one.txt": "first", "two.txt": "second" });
    const panel = page.frameLocator("#sending iframe");
    const rows = panel.getByRole("listitem");
    const sent = (name: string) => rows.filter({ hasText: name }).getByText("sent").waitFor();
    await sent("one.txt");
    await sent("two.txt");
    await drop({ "three.txt": "third" });
    await sent("three.txt");
    expect(await page.locator("#sending").count()).toBe(1);
    await panel.getByRole("button", { name: "Done" }).click();
    await panel.getByRole("heading", { name: "All done" }).waitFor();
    const saved = (name: string) => readFile(join(root, "inbox", name), "utf8");
    for (const [name, text] of [
      ["one.txt", "first"],
      ["two.txt", "second"],
      ["three.txt", "third"],
    ])
      await vi.waitFor(async () => expect(await saved(name!)).toBe(text), 10_000);
    // the list is loaded anew, for they may be in it
    await page.getByRole("button", { name: "Close: sending files" }).click();
    await page.locator("#sending").waitFor({ state: "detached" });
    await page.getByRole("searchbox").waitFor();
  });

  test("another page can neither frame the page, nor read it, nor have a link made", async () => {
    const target = `${origin}/?open=files://local/notes.txt`;
    const led = await fetch(`${origin}/`, { method: "POST", redirect: "manual" });
    const uploadPage = led.headers.get("location")!;
    const other = createServer((_, response) => {
      response.setHeader("content-type", "text/html");
      response.end(
        `<a href="${target}">click</a><iframe src="${origin}/"></iframe><iframe src="${uploadPage}"></iframe>`,
      );
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    for (const host of ["127.0.0.1", "localhost"]) {
      const foreign = await browser.newPage();
      await foreign.goto(`http://${host}:${port}/`);
      const read = (url: string): Promise<string> =>
        foreign.evaluate(
          (given) =>
            fetch(given).then(
              () => "read",
              () => "refused",
            ),
          url,
        );
      expect([await read(`${origin}/`), await read(target)]).toEqual(["refused", "refused"]);
      for (const at of [0, 1])
        expect(await foreign.frameLocator("iframe").nth(at).locator("table, form").count()).toBe(0);
      const [response] = await Promise.all([
        foreign.waitForResponse((answer) => answer.url() === target),
        foreign.getByText("click").click(),
      ]);
      expect(response.status()).toBe(403);
      await foreign.close();
    }
    other.close();
  });

  describe.each([
    [320, "light"],
    [320, "dark"],
    [768, "light"],
    [768, "dark"],
    [1440, "light"],
    [1440, "dark"],
  ] as const)("at %i px, %s", (width, colorScheme) => {
    /** Takes a picture, and looks for what axe and a narrow window complain of. */
    async function look(state: string): Promise<void> {
      await page.screenshot({ path: join(shots, `${state}-${width}-${colorScheme}.png`) });
      const overflow = "document.documentElement.scrollWidth - innerWidth";
      expect(await page.evaluate(overflow), `${state} scrolls sideways`).toBeLessThanOrEqual(0);
      await page.evaluate(axe.source);
      const found = await page.evaluate(
        `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).join(" ")))`,
      );
      expect(found, state).toEqual([]);
    }
    const looks = { viewport: { width, height: 900 }, colorScheme };

    test("every state fits, with contrast, names and roles", async () => {
      await visit("/", looks);
      await page.getByRole("searchbox").waitFor();
      await look("folder");
      const lines = await page
        .locator("#files .name")
        .evaluateAll((names) => names.map((name) => Math.round(name.clientHeight / (16 * 1.35))));
      expect(Math.max(...lines)).toBe(2);
      for (const name of ["sunset.png", "accounts.csv", "README.md", "chime.wav", "backup.zip"]) {
        await preview(name);
        await look(`preview-${name}`);
        await page.getByRole("button", { name: "Close" }).click();
      }
      await page.getByRole("searchbox").fill("zzz");
      await look("no-match");
      await page.goto(origin + folder("Reports/2026/"));
      await look("deep");
      await page.goto(origin + folder("none/"));
      await look("empty");
      await page.goto(`${origin}/?open=files://local/none`);
      await look("error");
    });
  });
});
