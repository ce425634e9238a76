// @module-tag slow
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { hasBrowser, startBrowser } from "../../../e2e/bed/browser.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import { startPageSite, type PageSite } from "./page-site.ts";

if (!hasBrowser)
  console.log("no Chromium: the upload page is not loaded again (apt-get install chromium)");

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("upload page, loaded again: most of its tests are for SLUICE_DEEP=1");
const patienceMs = isDeep ? 60_000 : 20_000;
const papers = { type: "file", title: "Papers", multiple: true, maxFiles: 3 } as const;
const photo = { type: "file", title: "Photo" } as const;
const fileBytes = 1_000_000;

/** How far a user has come with three files. */
const points = [
  "before the first byte",
  "in the middle of the first file",
  "between the first and the second",
  "in the middle of the second",
  "after the last",
  "after Done, before its answer",
  "after all is done",
] as const;
type Point = (typeof points)[number];

/** What happens to the page then. Each gives the page on which the user goes on. */
const events = {
  async "a reload"({ page }) {
    await page.reload();
    return page;
  },
  async "a second tab"({ page, context }) {
    const second = await context.newPage();
    await second.goto(page.url());
    return second;
  },
  async "the back button"({ page, site }) {
    await page.goto(`${site.origin}/elsewhere`);
    await page.goBack();
    return page;
  },
  async "a crashed tab"({ page, context }) {
    const url = page.url();
    const crashed = page.waitForEvent("crash");
    const devtools = await context.newCDPSession(page);
    // its answer never comes
    void devtools.send("Page.crash").catch(() => {});
    await crashed;
    await page.close();
    const other = await context.newPage();
    await other.goto(url);
    return other;
  },
  async "a phone that sleeps"({ page, context, sockets }) {
    const devtools = await context.newCDPSession(page);
    await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
    await context.setOffline(true);
    for (const socket of sockets) socket.destroy();
    await context.setOffline(false);
    await devtools.send("Page.setWebLifecycleState", { state: "active" });
    return page;
  },
} satisfies Record<string, (scene: Scene) => Promise<Page>>;
type Event = keyof typeof events;

interface Scene {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly site: PageSite;
  /** Every connection to the site. */
  readonly sockets: ReadonlySet<IncomingMessage["socket"]>;
}

/** A tenth; CI tries all of them. */
const ordinary: readonly (readonly [Point, Event])[] = [
  ["in the middle of the second", "a reload"],
  ["after the last", "a second tab"],
];
const all = points.flatMap((point) =>
  (Object.keys(events) as Event[]).map((event) => [point, event] as const),
);

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

describe.skipIf(!hasBrowser)("the upload page, loaded again", () => {
  let browser: Browser;
  let site: PageSite;
  let folder: string;
  /** Three files on disk: what is picked twice is the same file. */
  let files: string[];
  let digests: string[];
  let context: BrowserContext;
  const sockets = new Set<IncomingMessage["socket"]>();

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-picked-"));
    [browser, site] = await Promise.all([startBrowser(), startPageSite()]);
    const contents = Array.from({ length: 3 }, () => randomBytes(fileBytes));
    digests = contents.map(sha256).toSorted();
    files = contents.map((_, n) => join(folder, `paper ${n + 1}.bin`));
    await Promise.all(files.map((path, n) => writeFile(path, contents[n]!)));
  });
  afterAll(async () => {
    await browser?.close();
    await site?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  afterEach(async () => {
    site.meddle = undefined;
    sockets.clear();
    await context.close();
    assert.deepEqual(site.errors.splice(0), []);
  });

  const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1 });
  const sent = (page: Page) => page.locator("li.file[data-phase=done]");
  const pick = (page: Page, paths: readonly string[]) =>
    page.locator("input[type=file]").setInputFiles([...paths]);
  const pressDone = (page: Page) => page.getByRole("button", { name: "Done" }).click();

  /** Meddles with the next step of a file: some of its bytes pass, the others wait for `release`. */
  function holdStep() {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      let passed = 0;
      site.meddle = (request) => {
        sockets.add(request.socket);
        if (request.method !== "PATCH" || passed > 0) return;
        const emit = request.emit.bind(request);
        const waiting: Parameters<typeof emit>[] = [];
        let isHeld = true;
        release = () => {
          isHeld = false;
          for (const args of waiting.splice(0)) emit(...args);
        };
        // a listener would set the body flowing before the endpoint reads it
        request.emit = ((...args: Parameters<typeof emit>) => {
          const [event, chunk] = args as unknown as [string, Buffer];
          const isBody = event === "data" || event === "end";
          if (isHeld && isBody && passed >= fileBytes * 0.3) {
            waiting.push(args);
            resolve();
            return true;
          }
          if (event === "data") passed += chunk.length;
          return emit(...args);
        }) as typeof request.emit;
      };
    });
    return { held, release: () => release() };
  }

  /** Holds what the page asks about its end. */
  function holdEnding() {
    const held: ServerResponse[] = [];
    site.meddle = (request, response) => {
      sockets.add(request.socket);
      if (request.method !== "GET" || request.headers.accept !== "application/json") return false;
      held.push(response);
      return true;
    };
    return () => {
      for (const response of held) response.destroy();
    };
  }

  /** Asks for three files, as a tool does; `result` is what the tool got. */
  async function ask(era: (typeof eras)[number]) {
    const fetch = createToolServer(site.sluice, async (mcp, ctx) => {
      const fields = { papers } as const;
      const outcome = await site.uploads.ask({ message: "Papers?", fields }, { mcp, ctx });
      if (outcome.action === "ask") return outcome.result;
      if (outcome.action !== "accept") throw new Error(outcome.action);
      const received: string[] = [];
      for (const file of outcome.files.papers) {
        const bytes = await new Response((await file.open()).body).arrayBuffer();
        received.push(sha256(new Uint8Array(bytes)));
        await file.remove();
      }
      return { content: [{ type: "text", text: received.toSorted().join() }] };
    });
    let opened!: (url: string) => void;
    const url = new Promise<string>((resolve) => void (opened = resolve));
    const client = await connectAnswerer({
      era,
      fetch,
      capabilities: { elicitation: { url: {} } },
      answer(asked) {
        opened(asked.url ?? "");
        return { action: "accept" };
      },
    });
    const stop = new AbortController();
    const call = client.callTool({ name: "look", arguments: {} }, { signal: stop.signal });
    const result = call.then(
      ({ content, isError }) => `${isError === true ? "error: " : ""}${JSON.stringify(content)}`,
      (error: unknown) => `error: ${String(error)}`,
    );
    return { url: await url, result, stop: () => stop.abort() };
  }

  /** Goes as far as a point; gives what lets things go on. */
  async function goTo(page: Page, point: Point): Promise<() => void> {
    const reached = points.indexOf(point);
    for (const [n, path] of files.entries()) {
      const middle = points.indexOf(
        n === 0 ? "in the middle of the first file" : "in the middle of the second",
      );
      if (reached < middle) return () => {};
      const isMiddle = reached === middle && n < 2;
      const { held, release } = isMiddle ? holdStep() : { held: undefined, release: () => {} };
      await pick(page, [path]);
      await held;
      if (isMiddle) return release;
      await expect.poll(() => sent(page).count(), { timeout: patienceMs }).toBe(n + 1);
      if (n === 0 && point === "between the first and the second") return () => {};
    }
    if (point === "after the last") return () => {};
    const release = point === "after all is done" ? () => {} : holdEnding();
    const answered = page.waitForRequest((request) => request.method() === "POST");
    await pressDone(page);
    await (await answered).response();
    if (point === "after all is done")
      await heading(page, "All done").waitFor({ timeout: patienceMs });
    return release;
  }

  /** What a user does who only sees the page: picks everything again, waits, and says Done. */
  async function finish(page: Page): Promise<void> {
    const form = page.locator("form#question");
    const ending = page.locator("#ending");
    await form.or(ending).first().waitFor();
    if ((await form.count()) > 0) {
      await pick(page, files);
      await sent(page).nth(2).waitFor({ timeout: patienceMs });
      const rows = await page.getByRole("listitem").allInnerTexts();
      assert.equal(rows.length, 3, rows.join());
      await pressDone(page);
    }
    await heading(page, "All done").waitFor({ timeout: patienceMs });
  }

  test.each(isDeep ? all : ordinary)(
    "%s, through %s: the tool gets the three files, and the page says done",
    async (point, event) => {
      context = await browser.newContext();
      site.meddle = (request) => void sockets.add(request.socket);
      const at = all.findIndex(([aPoint, anEvent]) => aPoint === point && anEvent === event);
      const { url, result } = await ask(eras[at % 2]!);
      const page = await context.newPage();
      await page.goto(url);
      const release = await goTo(page, point);
      const other = await events[event]({ page, context, site, sockets });
      site.meddle = undefined;
      release();
      await finish(other);
      expect(await result).toContain(digests.join());
      // the tab that was there before says the same
      if (!page.isClosed()) {
        await page.evaluate("dispatchEvent(new Event('focus'))");
        await heading(page, "All done").waitFor({ timeout: patienceMs });
      }
    },
  );

  test.runIf(isDeep)("these checks catch a page that does not ask its slots", async () => {
    context = await browser.newContext();
    const { url, result, stop } = await ask("legacy");
    const page = await context.newPage();
    await page.goto(url);
    await goTo(page, "between the first and the second");
    site.meddle = (request, response) => {
      if (request.method !== "GET" || request.url?.includes("/u/") !== true) return false;
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
      return true;
    };
    await page.reload();
    await pick(page, files);
    const rows = page.getByRole("list");
    await rows.getByText("The file limit is reached").waitFor({ timeout: patienceMs });
    expect(await heading(page, "All done").count()).toBe(0);
    // what is there is not given away, and nothing of it is lost
    stop();
    expect(await result).toMatch(/^error: /);
  });

  test.runIf(isDeep)(
    "a page says done when the tool has the files, and these checks catch one that says it before",
    async () => {
      for (const isTwin of [false, true]) {
        context = await browser.newContext();
        const { url, pageId } = await site.ask({ papers });
        const page = await context.newPage();
        if (isTwin)
          await page.route("**/assets/page-*.js", async (route) => {
            const response = await route.fetch();
            const body = (await response.text()).replace("Almost done", "All done");
            await route.fulfill({ response, body });
          });
        await page.goto(url);
        await pick(page, files);
        await expect.poll(() => sent(page).count(), { timeout: patienceMs }).toBe(3);
        await pressDone(page);
        await page.locator("#ending").waitFor({ timeout: patienceMs });
        expect(await heading(page, "All done").count()).toBe(isTwin ? 1 : 0);
        await site.pages.conclude(pageId, "failed");
        await heading(page, "Your files were not taken").waitFor({ timeout: patienceMs });
        await page.locator("#ending").getByText("Go back and ask for a new link.").waitFor();
        if (!isTwin) await context.close();
      }
    },
  );

  test.runIf(isDeep)(
    "a tab that lets go of a file shows how the other one ended, untouched",
    async () => {
      context = await browser.newContext();
      const [first, second] = [await context.newPage(), await context.newPage()];
      const asked = await ask("modern");
      await first.goto(asked.url);
      const step = holdStep();
      await pick(first, [files[0]!]);
      await step.held;
      await second.goto(asked.url);
      await pick(second, [files[0]!]);
      // the other one may be done before this page has drawn that it left the file
      await first.locator("li.file:is([data-phase=left], [data-phase=done])").waitFor();
      step.release();
      await sent(second).waitFor();
      await pressDone(second);
      await heading(second, "All done").waitFor();
      expect(await asked.result).toContain(sha256(await readFile(files[0]!)));
      // a page with all of its files asks again when its user comes back
      await first.evaluate("dispatchEvent(new Event('focus'))");
      await heading(first, "All done").waitFor({ timeout: patienceMs });
    },
  );

  test("a file that is picked before the page knows what is there is not sent twice", async () => {
    context = await browser.newContext();
    const page = await context.newPage();
    const { url, pageId } = await site.ask({ papers });
    await page.goto(url);
    await goTo(page, "between the first and the second");
    const releaseStatus = holdEnding();
    await page.reload();
    await pick(page, files);
    site.meddle = undefined;
    releaseStatus();
    await expect.poll(() => sent(page).count(), { timeout: patienceMs }).toBe(3);
    expect(await page.getByRole("listitem").allInnerTexts()).toHaveLength(3);
    await pressDone(page);
    await heading(page, "Almost done").waitFor({ timeout: patienceMs });
    const { content } = (await site.pages.answerOf(pageId)) as { content: { papers: object[] } };
    expect(content.papers).toHaveLength(3);
  });

  test.runIf(isDeep)(
    "with one file allowed, a user goes on with it or replaces it at once",
    async () => {
      context = await browser.newContext();
      const page = await context.newPage();
      const { url, pageId } = await site.ask({ photo });
      await page.goto(url);
      const { held } = holdStep();
      await pick(page, [files[0]!]);
      await held;
      await page.reload();
      site.meddle = undefined;
      const left = page.locator("li.file[data-phase=left]");
      await left.getByText("choose the same file again").waitFor();
      // another one takes its place
      await pick(page, [files[1]!]);
      await sent(page)
        .filter({ hasText: basename(files[1]!) })
        .waitFor({ timeout: patienceMs });
      await page.reload();
      await sent(page)
        .filter({ hasText: basename(files[1]!) })
        .waitFor();
      await pick(page, [files[2]!]);
      await sent(page)
        .filter({ hasText: basename(files[2]!) })
        .waitFor({ timeout: patienceMs });
      expect(await page.getByRole("listitem").count()).toBe(1);
      await page.reload();
      await sent(page).waitFor();
      // the same again is the same
      await pick(page, [files[2]!]);
      // the page also says it to screen readers, in a place of its own
      await page
        .locator("#field-0-error")
        .getByText("is here already and not sent again")
        .waitFor();
      await pressDone(page);
      await heading(page, "Almost done").waitFor({ timeout: patienceMs });
      const { content } = (await site.pages.answerOf(pageId)) as { content: { photo: object } };
      expect(content.photo).toMatchObject({ name: basename(files[2]!), size: fileBytes });
    },
  );

  test.runIf(isDeep)(
    "a file of the same name and size with another beginning is not gone on with",
    async () => {
      context = await browser.newContext();
      const page = await context.newPage();
      const { url, pageId } = await site.ask({ papers });
      await page.goto(url);
      const { held } = holdStep();
      await pick(page, [files[0]!]);
      await held;
      await page.reload();
      site.meddle = undefined;
      const left = page.locator("li.file[data-phase=left]");
      await left.waitFor();
      const name = basename(files[0]!);
      const buffer = randomBytes(fileBytes);
      await page
        .locator("input[type=file]")
        .setInputFiles([{ name, mimeType: "application/octet-stream", buffer }]);
      await sent(page).waitFor({ timeout: patienceMs });
      await pressDone(page);
      await page.getByText("A file is incomplete.").waitFor();
      await left.getByRole("button", { name: "Remove" }).click();
      await pressDone(page);
      await heading(page, "Almost done").waitFor({ timeout: patienceMs });
      const { content } = (await site.pages.answerOf(pageId)) as { content: object };
      expect(content).toMatchObject({ papers: [{ name, sha256: sha256(buffer) }] });
    },
  );

  test.runIf(isDeep)(
    "a file that changed behind its beginning is sent anew, and no byte of the two is mixed",
    async () => {
      context = await browser.newContext();
      const page = await context.newPage();
      const { url, pageId } = await site.ask({ photo });
      await page.goto(url);
      const { held } = holdStep();
      await pick(page, [files[0]!]);
      await held;
      await page.reload();
      site.meddle = undefined;
      await page.locator("li.file[data-phase=left]").waitFor();
      const buffer = await readFile(files[0]!);
      buffer.fill(7, 100_000, 200_000);
      const name = basename(files[0]!);
      await page
        .locator("input[type=file]")
        .setInputFiles([{ name, mimeType: "application/octet-stream", buffer }]);
      await sent(page).waitFor({ timeout: patienceMs });
      await pressDone(page);
      await heading(page, "Almost done").waitFor({ timeout: patienceMs });
      const { content } = (await site.pages.answerOf(pageId)) as { content: object };
      expect(content).toMatchObject({ photo: { name, sha256: sha256(buffer) } });
    },
  );
});
