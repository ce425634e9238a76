// @module-tag slow
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, rmSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserContextOptions, FileChooser, Page } from "playwright-core";
import type { ClaimedFile } from "@sluice/uploads";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
} from "vitest";
import { hasBrowser, startBrowser } from "../../../e2e/bed/browser.ts";
import { connectAnswerer, createToolServer, eras } from "./asking.ts";
import type { Fields } from "../src/elicitation/fields.ts";
import {
  chooseGenerated,
  dropFiles,
  findings,
  generate,
  nameOfFocus,
  reportViolations,
  spoil,
} from "./in-page.mjs";
import { type AskedPage, type PageSite, startPageSite } from "./page-site.ts";

if (!hasBrowser)
  console.log("no Chromium: the upload page is not tried in a browser (apt-get install chromium)");

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
// a browser is slow to talk to; CI runs all of them
if (!isDeep) console.log("upload page: most of its tests in a browser are for SLUICE_DEEP=1");
const photo = { type: "file", title: "Photo", accept: ["image/png"], maxBytes: 5_000_000 } as const;
const papers = { type: "file", title: "Papers", multiple: true, maxFiles: 3 } as const;

/** How a page is opened; with `hasClock` the test says what time it is there. */
type VisitOptions = BrowserContextOptions & { readonly hasClock?: boolean };

/** The beginning of a PNG, and noise. */
function png(size: number): Buffer {
  const head = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154";
  return Buffer.concat([Buffer.from(head, "hex"), randomBytes(size)]).subarray(0, size);
}

function named(name: string, buffer: Buffer, mimeType = "application/octet-stream") {
  return { name, mimeType, buffer };
}

describe.skipIf(!hasBrowser)("the upload page in a browser", () => {
  let browser: Browser;
  let site: PageSite;
  let page: Page;
  /** What the page complained of: errors, and what its policy refused. */
  let complaints: string[];

  beforeAll(async () => {
    [browser, site] = await Promise.all([startBrowser(), startPageSite()]);
  });
  afterAll(async () => {
    await browser?.close();
    await site?.[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    complaints = [];
    site.requests.length = 0;
  });
  afterEach(async () => {
    site.meddle = undefined;
    await page.close();
    assert.deepEqual(complaints, []);
    assert.deepEqual(site.errors, []);
  });

  /** Opens the page of a question as a user would that got its link. */
  async function open(
    fields: Fields,
    { message, ...options }: VisitOptions & { message?: string } = {},
  ): Promise<AskedPage> {
    const asked = await site.ask(fields, message);
    await visitPage(asked.url, options);
    return asked;
  }

  async function visitPage(
    url: string,
    { hasClock, ...options }: VisitOptions = {},
  ): Promise<void> {
    page = await browser.newPage(options);
    if (hasClock) await page.clock.install();
    page.on("pageerror", ({ message: text }) => complaints.push(text));
    page.on("console", (line) => {
      // the browser's own word on a request that was refused or broken on purpose
      if (line.type() === "error" && !line.text().startsWith("Failed to load resource"))
        complaints.push(line.text());
    });
    await page.addInitScript(reportViolations);
    await page.addInitScript(`globalThis.generate = ${generate.toString()}`);
    await page.goto(url);
  }

  const row = (name: string) => page.getByRole("listitem").filter({ hasText: name });
  const meta = (name: string) => row(name).locator(".meta");
  const until = (name: string, text: string) =>
    meta(name)
      .filter({ hasText: text })
      .waitFor({ timeout: isDeep ? 300_000 : 30_000 });
  const picker = (label: string) => page.getByRole("button", { name: `for ${label}` });
  const choose = (label: string, files: ReturnType<typeof named>[]) =>
    picker(label).setInputFiles(files);

  /** What the page answered; it is taken, as by a tool, and the page then says that all is done. */
  async function answerOf({ pageId }: AskedPage): Promise<Record<string, unknown>> {
    await page.getByRole("heading", { name: "Almost done" }).waitFor();
    const { content } = (await site.pages.answerOf(pageId)) as { content: object };
    await site.pages.conclude(pageId, "accepted");
    await page.getByRole("heading", { name: "All done" }).waitFor();
    return { ...content };
  }

  /** SHA-256 of the files of a field, as the tool that asked reads them. */
  async function received(
    { slots, owner }: AskedPage,
    name: string,
    claims: unknown,
  ): Promise<string[]> {
    const { uploadId } = slots.get(name)!;
    const files = await site.uploads.confirm(owner, uploadId, claims as ClaimedFile[]);
    const digests: string[] = [];
    for (const file of files) {
      const hash = createHash("sha256");
      for await (const chunk of (await file.open()).body) hash.update(chunk);
      digests.push(hash.digest("hex"));
      await file.remove();
    }
    return digests;
  }

  function sha256(...buffers: Buffer[]): string[] {
    return buffers.map((buffer) => createHash("sha256").update(buffer).digest("hex"));
  }

  // from the link on both eras are alike
  test.runIf(isDeep).each(eras)(
    "%s: a tool that asks a client without files gets them from here",
    async (era) => {
      const content = png(50_000);
      const fetch = createToolServer(site.sluice, async (mcp, ctx) => {
        const fields = { photo, note: { type: "string", title: "Note" } } as const;
        const outcome = await site.uploads.ask({ message: "A photo?", fields }, { mcp, ctx });
        if (outcome.action === "ask") return outcome.result;
        if (outcome.action !== "accept") throw new Error(outcome.action);
        const { sha256: digest } = outcome.files.photo;
        await outcome.files.photo.remove();
        return { content: [{ type: "text", text: `${outcome.values.note}: ${digest}` }] };
      });
      const visited: Promise<void>[] = [];
      const client = await connectAnswerer({
        era,
        fetch,
        capabilities: { elicitation: { url: {} } },
        answer({ url = "" }) {
          const visit = async (): Promise<void> => {
            await visitPage(url);
            await page.getByLabel("Note").fill("Here");
            await choose("Photo", [named("a.png", content, "image/png")]);
            await until("a.png", "sent");
            await page.getByRole("button", { name: "Done" }).click();
          };
          // the user agrees to open the link; what happens there takes its time
          visited.push(visit());
          return { action: "accept" };
        },
      });
      const result = await client.callTool({ name: "look", arguments: {} });
      await Promise.all(visited);
      expect(result.content).toEqual([{ type: "text", text: `Here: ${sha256(content)[0]}` }]);
    },
  );

  test("the next step is the loudest: to choose, then Done, then a word to the assistant", async () => {
    const asked = await open({ photo });
    const colour = (element: string) =>
      page.evaluate(`getComputedStyle(document.querySelector("${element}")).backgroundColor`);
    const quiet = "rgba(0, 0, 0, 0)";
    expect(await colour("#done")).toBe(quiet);
    const loud = await colour(".choose");
    expect(loud).not.toBe(quiet);
    await choose("Photo", [named("a.png", png(1_000), "image/png")]);
    await until("a.png", "sent");
    await expect
      .poll(async () => [await colour("#done"), await colour(".choose")])
      .toEqual([loud, quiet]);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByText("tell it: “The files are sent.”").waitFor();
    await answerOf(asked);
  });

  test("sends what was picked, byte for byte, and says Done to the tool that waits", async () => {
    const asked = await open({ photo, papers, note: { type: "string", title: "Note" } });
    const [a, b, c] = [png(300_000), randomBytes(70_000), Buffer.alloc(0)];
    await page.getByLabel("Note").fill("for May");
    await choose("Photo", [named("a.png", a, "image/png")]);
    await choose("Papers", [named("b ü 日本.bin", b), named("empty.txt", c, "text/plain")]);
    for (const name of ["a.png", "b ü", "empty"]) await until(name, "sent");
    await page.getByRole("button", { name: "Done" }).click();
    const content = await answerOf(asked);
    expect(content).toMatchObject({
      photo: { name: "a.png", size: a.length, mimeType: "image/png", sha256: sha256(a)[0] },
      papers: [{ name: "b ü 日本.bin" }, { name: "empty.txt", size: 0 }],
      note: "for May",
    });
    expect(await received(asked, "photo", [content["photo"]])).toEqual(sha256(a));
    expect(await received(asked, "papers", content["papers"])).toEqual(sha256(b, c));
    expect(await page.evaluate(nameOfFocus)).toBe("All done");
  });

  test("goes on by itself after a connection was cut, without sending again what is there", async () => {
    const size = isDeep ? 200_000_000 : 4_000_000;
    const asked = await open({ disk: { type: "file", title: "Disk", maxBytes: size } });
    const cut = { after: size * 0.6, bytes: 0, cuts: 0 };
    site.meddle = (request) => {
      if (request.method !== "PATCH") return;
      // a listener would set the body flowing before the endpoint reads it
      const emit = request.emit.bind(request);
      request.emit = ((event: string, ...args: unknown[]) => {
        if (event === "data") cut.bytes += (args[0] as Buffer).length;
        const isDue = cut.bytes >= cut.after && cut.cuts === 0;
        if (isDue) cut.cuts += 1;
        if (isDue) request.socket.destroy();
        return emit(event, ...args);
      }) as typeof request.emit;
    };
    await picker("Disk").evaluate(chooseGenerated, { name: "disk.img", size });
    await until("disk.img", "sent");
    expect(cut.cuts).toBe(1);
    // what was on its way may come twice, what was kept may not. Chromium repeats the step of 16 MiB that was cut, at its old
    // offset: the server refuses it, and reads it to its end
    expect(cut.bytes).toBeLessThan(size + 16_000_000 + 2 ** 24);
    await page.getByRole("button", { name: "Done" }).click();
    const { disk } = await answerOf(asked);
    expect(await received(asked, "disk", [disk])).toEqual(sha256(Buffer.from(generate(size))));
  });

  test.runIf(isDeep)(
    "pauses and goes on by button, and a file can be taken back, also over a line that breaks",
    async () => {
      const asked = await open({ papers });
      const [a, b] = [randomBytes(2_000_000), randomBytes(1_000)];
      let held = 0;
      site.meddle = (request) => {
        if (request.method !== "PATCH" || held > 0) return false;
        // takes the request and never answers: a user that wants to go on has to pause first
        held += 1;
        request.resume();
        return true;
      };
      await choose("Papers", [named("a.bin", a)]);
      await expect.poll(() => held).toBe(1);
      await row("a.bin").getByRole("button", { name: "Pause" }).click();
      await until("a.bin", "paused");
      await page.getByRole("button", { name: "Done" }).click();
      await page.getByText("A file is paused. Resume or remove it first.").waitFor();
      await row("a.bin").getByRole("button", { name: "Resume" }).click();
      await until("a.bin", "sent");
      await choose("Papers", [named("b.bin", b)]);
      await until("b.bin", "sent");
      // the line breaks while it is taken back: an answer without it would not agree with what is there
      let broken = 0;
      site.meddle = (request) => {
        if (request.method !== "DELETE" || broken > 0) return false;
        broken += 1;
        request.socket.destroy();
        return true;
      };
      await row("a.bin").getByRole("button", { name: "Remove" }).click();
      await page.getByRole("button", { name: "Done" }).click();
      const { papers: files } = await answerOf(asked);
      expect(broken).toBe(1);
      expect(files).toMatchObject([{ name: "b.bin" }]);
      expect(await received(asked, "papers", files)).toEqual(sha256(b));
    },
  );

  test.runIf(isDeep)(
    "another file takes the place of the one before where one is wanted",
    async () => {
      const asked = await open({ photo });
      const [a, b] = [png(1_000), png(2_000)];
      await choose("Photo", [named("a.png", a, "image/png")]);
      await until("a.png", "sent");
      await choose("Photo", [named("b.png", b, "image/png")]);
      await until("b.png", "sent");
      expect(await page.getByRole("listitem").count()).toBe(1);
      await page.getByRole("button", { name: "Done" }).click();
      const { photo: file } = await answerOf(asked);
      expect(await received(asked, "photo", [file])).toEqual(sha256(b));
    },
  );

  test.runIf(isDeep)(
    "says in words what is wrong with a file, before it is sent or after",
    async () => {
      await open({ photo, papers });
      await choose("Photo", [named("big.png", png(5_000_001), "image/png")]);
      await row("big.png")
        .getByText("Too big: it has 5 MB, and at most 5 MB can be sent")
        .waitFor();
      await choose("Photo", [named("a.txt", Buffer.from("text"), "text/plain")]);
      await row("a.txt").getByText("This file type is not accepted. Accepted: PNG.").waitFor();
      expect(site.requests.filter((line) => line.startsWith("POST"))).toEqual([]);
      await choose("Photo", [named("fake.png", randomBytes(9_000), "image/png")]);
      await row("fake.png").getByText("This file type is not accepted.").waitFor();
      await choose(
        "Papers",
        ["1", "2", "3", "4"].map((name) => named(name, Buffer.from(name))),
      );
      await page
        .locator("#field-1-error")
        .getByText("At most 3 files can be sent here; 1 more were left out.")
        .waitFor();
      for (const [status, words] of [
        [507, "There is no room left for your files"],
        [410, "This link has expired"],
        [403, "The server checked this file and rejected it"],
      ] as const) {
        site.meddle = (request, response) => {
          if (request.method !== "POST") return false;
          response.writeHead(status, { "content-type": "application/problem+json" }).end("{}");
          return true;
        };
        await choose("Photo", [named(`refused-${status}.png`, png(100), "image/png")]);
        await row(`refused-${status}`).getByText(words).waitFor();
      }
      await page.getByRole("button", { name: "Done" }).click();
      await page.locator("#field-0-error").getByText("A file could not be sent.").waitFor();
      // once the server takes it, another try is enough
      site.meddle = undefined;
      await row("refused-403").getByRole("button", { name: "Try again" }).click();
      await until("refused-403", "sent");
    },
  );

  test.runIf(isDeep)(
    "a server that is away is tried again, at once where the user asks for it",
    async () => {
      await open({ photo });
      let refusals = 0;
      site.meddle = (request, response) => {
        if (request.method !== "POST") return false;
        refusals += 1;
        response.writeHead(503, { "retry-after": "600" }).end();
        return true;
      };
      await choose("Photo", [named("a.png", png(100), "image/png")]);
      const tryNow = row("a.png").getByRole("button", { name: "Try now" });
      await tryNow.waitFor();
      site.meddle = undefined;
      await tryNow.click();
      await until("a.png", "sent");
      expect(refusals).toBe(1);
    },
  );

  test.each([
    ["changed", (path: string) => appendFileSync(path, "more")],
    ["deleted", (path: string) => rmSync(path)],
  ] as const)(
    "a file that is %s while it is sent is to be chosen again, and is not tried for ever",
    async (_what, spoilFile) => {
      const folder = await mkdtemp(join(tmpdir(), "sluice-page-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const path = join(folder, "report.bin");
      const bytes = randomBytes(300_000);
      await writeFile(path, bytes);
      const asked = await open({ papers });
      let isSpoilt = false;
      site.meddle = ({ method, url = "" }) => {
        if (method !== "POST" || url.endsWith("/answer") || isSpoilt) return;
        isSpoilt = true;
        spoilFile(path);
      };
      await picker("Papers").setInputFiles(path);
      await row("report.bin").getByText("This file could not be read.").waitFor();
      expect(await row("report.bin").textContent()).toContain("choose it again");
      expect(site.requests.filter((request) => request.startsWith("PATCH")).length).toBeLessThan(2);
      await row("report.bin").getByRole("button", { name: "Remove" }).click();
      await writeFile(path, bytes);
      await picker("Papers").setInputFiles(path);
      await until("report.bin", "sent");
      await page.getByRole("button", { name: "Done" }).click();
      const { papers: claims } = await answerOf(asked);
      expect(await received(asked, "papers", claims)).toEqual([
        createHash("sha256").update(bytes).digest("hex"),
      ]);
    },
  );

  test("works by keyboard alone, and the focus is never lost", async () => {
    const asked = await open({ photo, agree: { type: "boolean", title: "I agree" } });
    const focused = () => page.evaluate(nameOfFocus);
    // listening from the start: the browser takes a moment to hand its choosers over
    const choosers: FileChooser[] = [];
    page.on("filechooser", (chooser) => choosers.push(chooser));
    const chosen = async (count: number, file: ReturnType<typeof named>) => {
      await expect.poll(() => choosers.length).toBe(count);
      await choosers.at(-1)?.setFiles([file]);
      await until(file.name, "sent");
    };
    await page.keyboard.press("Tab");
    expect(await focused()).toContain("Choose a file for Photo");
    await page.keyboard.press("Enter");
    await chosen(1, named("a.png", png(500), "image/png"));
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Remove a.png");
    await page.keyboard.press("Enter");
    expect(await focused()).toContain("Choose a file for Photo");
    await page.keyboard.press("Space");
    await chosen(2, named("b.png", png(600), "image/png"));
    const path: string[] = [];
    for (let step = 0; step < 4; step++) {
      await page.keyboard.press("Tab");
      path.push(await focused());
    }
    expect(path).toEqual(["Remove b.png", "I agree", "Don’t send", "Done"]);
    await page.keyboard.press("Enter");
    expect(await answerOf(asked)).toMatchObject({ photo: { name: "b.png" }, agree: false });
  });

  test.runIf(isDeep)(
    "a missing file or value is said beside its field, which gets the focus",
    async () => {
      const asked = await open({
        photo,
        mail: { type: "string", format: "email", title: "Mail", required: true },
      });
      await page.getByRole("button", { name: "Done" }).click();
      await page.getByText("Choose a file first.").waitFor();
      await page.getByText("2 fields need another look.").waitFor();
      expect(await page.evaluate(nameOfFocus)).toContain("Choose a file for Photo");
      expect(await page.getByLabel("Mail").getAttribute("aria-invalid")).toBe("true");
      await page.getByRole("button", { name: "Don’t send" }).click();
      await page.getByRole("heading", { name: "Nothing is used" }).waitFor();
      expect(await site.pages.answerOf(asked.pageId)).toEqual({ action: "decline" });
    },
  );

  test.runIf(isDeep)("a link that ends while the page is open stops it, and says so", async () => {
    site.meddle = (request) => request.method === "PATCH";
    const { pageId } = await open({ papers }, { hasClock: true });
    await choose("Papers", [named("a.png", png(100), "image/png")]);
    await row("a.png").waitFor();
    await page.clock.fastForward(601_000);
    await page.getByRole("alert").getByText("This link has expired.").waitFor();
    await until("a.png", "paused");
    // a file that is picked when the link is over is not sent; the page may still ask what became of it
    const before = site.requests.length;
    await choose("Papers", [named("b.png", png(100), "image/png")]);
    await until("b.png", "paused");
    const later = site.requests.slice(before).filter((request) => !request.startsWith("GET "));
    expect(later).toEqual([]);
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
  });

  const hostile = `<img src=x onerror="document.title='owned'">.txt`;

  test.runIf(isDeep)(
    "takes what is dropped, and shows the names and words of others as text",
    async () => {
      const { url } = await open(
        { papers: { ...papers, title: hostile } },
        { message: `</p><script>${hostile}</script>` },
      );
      // what misses the field must not take the page away
      expect(await page.evaluate(dropFiles, hostile)).toEqual({ opensMissed: false });
      await until(hostile, "sent");
      expect(page.url()).toBe(url);
      expect(await page.title()).toContain("Send files to");
      expect(await page.locator("img, p script, iframe").count()).toBe(0);
      expect(await page.locator("#message").textContent()).toContain(hostile);
      expect(await page.locator(".file .name").allTextContents()).toEqual([hostile]);
      expect(await page.getByRole("heading", { level: 2 }).textContent()).toBe(hostile);
    },
  );

  test.runIf(isDeep)("these checks see what they look for", async () => {
    await open({ photo });
    await page.evaluate(spoil);
    await expect.poll(() => complaints.length).toBe(2);
    expect(complaints.toSorted().join()).toMatch(
      /Content Security Policy.*policy: style-src-attr/s,
    );
    complaints = [];
    expect((await page.evaluate(findings)).map((finding) => finding.split(":")[0])).toEqual([
      "id done twice",
      "id done twice",
      "aria-describedby names no nothing",
      "1.00",
    ]);
  });

  test.runIf(isDeep)(
    "each control has a name and each text has contrast, in light and in dark",
    async () => {
      await open(
        {
          photo,
          papers,
          kind: { type: "string", enum: ["a", "b"], title: "Kind", required: true },
        },
        { reducedMotion: "reduce", viewport: { width: 360, height: 740 } },
      );
      await choose("Photo", [named("a.txt", Buffer.from("a"), "text/plain")]);
      await choose("Papers", [named(`${"long-".repeat(30)}.bin`, Buffer.from("b"))]);
      await until("long-", "sent");
      await page.getByRole("button", { name: "Done" }).click();
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await page.evaluate(findings)).toEqual([]);
      }
      const tree = await page.locator("main").ariaSnapshot();
      expect(tree).toMatch(/heading "Send files" \[level=1\]/);
      expect(tree).toMatch(/heading "Photo" \[level=2\]/);
      expect(tree).toMatch(/alert: .* another look/);
      expect(tree).not.toMatch(/- (?:button|textbox|combobox|progressbar|checkbox)(?:$|:)/m);
    },
  );
});
