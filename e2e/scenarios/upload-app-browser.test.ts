// @module-tag slow
// The App that takes files, in a real browser inside a host made of the official library.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallToolResult } from "@modelcontextprotocol/server";
import { createFsBackend } from "@sluice/storage-fs";
import axe from "axe-core";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type AppHosts,
  type HostOptions,
  type HostWindow,
  startAppHosts,
} from "../bed/app-host.ts";
import { hasBrowser, startBrowser } from "../bed/browser.ts";
import { hostileMessages, hostileTexts, hostileUrls } from "../bed/hostile-texts.ts";
import { type Site, startSite } from "../bed/site.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
if (!hasBrowser) console.log("upload-app-browser: there is no Chromium on this machine");

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
/** Where the pictures go, for people to look at. */
const shots = process.env["SLUICE_SHOTS"] ?? join(tmpdir(), "sluice-upload-app");

/** The beginning of a PNG, and noise. */
function png(size: number): Buffer {
  const head = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154";
  return Buffer.concat([Buffer.from(head, "hex"), randomBytes(size)]).subarray(0, size);
}

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
const named = (name: string, buffer: Buffer, mimeType = "application/octet-stream") => ({
  name,
  mimeType,
  buffer,
});

describe.skipIf(!hasBrowser)("the App that takes files", () => {
  let folder: string;
  let browser: Browser;
  let hosts: AppHosts;
  let site: Site;
  let host: HostWindow;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-upload-app-"));
    await mkdir(shots, { recursive: true });
    browser = await startBrowser();
    hosts = await startAppHosts(browser);
  });
  beforeEach(async () => {
    // of its own: all visitors of a server count as one
    const root = await mkdtemp(join(folder, "inbox-"));
    const inbox = createFsBackend({ root, writable: true });
    site = await startSite({
      uploads: { storage: inbox, maxBytes: 2 ** 31 },
      asking(mcp, uploads) {
        const photo = {
          type: "file",
          title: "Photo",
          accept: ["image/png"],
          maxBytes: 5_000_000,
        } as const;
        const papers = { type: "file", title: "Papers", multiple: true, required: false } as const;
        const note = { type: "string", title: "Note", required: true } as const;
        const message = "The files for your report, please.";
        uploads.registerTool(
          mcp,
          "report",
          { message, fields: { photo, papers, note } },
          ({ files, values }) =>
            JSON.stringify([files.photo.sha256, files.papers.length, values.note]),
        );
        const file = { type: "file", title: "File" } as const;
        uploads.registerTool(
          mcp,
          "one",
          { message, fields: { file } },
          ({ files }) => files.file.sha256,
        );
        const soon = { message, fields: { file }, ttlMs: 4_000 };
        uploads.registerTool(mcp, "soon", soon, ({ files }) => files.file.sha256);
        const titled = hostileTexts.map((title, at) => [
          `f${at}`,
          { type: "string", title, description: title } as const,
        ]);
        const every = { file: { ...file, title: hostileTexts[0]! }, ...Object.fromEntries(titled) };
        const hostile = { message: hostileTexts.join("\n"), fields: every };
        uploads.registerTool(mcp, "hostile", hostile, () => "done");
        uploads.attach(mcp);
      },
    });
  });
  afterAll(async () => {
    await hosts?.[Symbol.asyncDispose]();
    await browser?.close();
    if (folder) await rm(folder, { recursive: true });
  });
  afterEach(async () => {
    await host.page.context().close();
    await site[Symbol.asyncDispose]();
    assert.deepEqual([host.complaints, host.strays], [[], []]);
  });

  async function open(tool: string, options?: HostOptions): Promise<CallToolResult> {
    host = await hosts.open(site.url, options);
    return host.open(tool);
  }

  const row = (name: string) => host.app.getByRole("listitem").filter({ hasText: name });
  const until = (name: string, text: string) =>
    row(name)
      .locator(".meta")
      .filter({ hasText: text })
      .waitFor({ timeout: isDeep ? 300_000 : 30_000 });
  const choose = (
    label: string,
    files: Parameters<ReturnType<typeof picker>["setInputFiles"]>[0],
  ) => picker(label).setInputFiles(files);
  const picker = (label: string) => host.app.getByRole("button", { name: `for ${label}` });
  // a click misses a button while the host fits the height of the frame
  const press = (name: string) => host.app.getByRole("button", { name }).press("Enter");
  const heading = (name: string) => host.app.getByRole("heading", { name }).waitFor();
  const sentence = (text: string) =>
    host.app.locator("#ending p").filter({ hasText: text }).waitFor();

  /** What the model does after the message of the App: it calls the tool again. */
  async function goOn(tool: string, asked: CallToolResult): Promise<string> {
    const { upload_id: uploadId } = asked.structuredContent as { upload_id: string };
    await vi.waitFor(() => expect(host.requests).toHaveLength(1), { timeout: 10_000 });
    const [{ method, params }] = host.requests as [HostWindow["requests"][number]];
    expect(method).toBe("ui/message");
    expect(params).toMatchObject({ role: "user", content: [{ type: "text" }] });
    expect(params.content[0].text).toContain(`upload_id "${uploadId}"`);
    const result = await host.call(tool, { upload_id: uploadId });
    return (result.content[0] as { text: string }).text;
  }

  test.each(["written", "opaque"] as const)(
    "sends two fields to their slots, and the tool goes on with them: %s sandbox",
    async (sandbox) => {
      const asked = await open("report", { sandbox });
      const [photo, paper] = [png(300_000), randomBytes(70_000)];
      await host.app.getByLabel("Note").fill("for May");
      await choose("Photo", named("a.png", photo, "image/png"));
      await choose("Papers", [named("b ü 日本.bin", paper), named("empty.txt", Buffer.alloc(0))]);
      for (const name of ["a.png", "b ü", "empty"]) await until(name, "sent");
      await press("Done");
      await sentence("The assistant goes on with them.");
      expect(await goOn("report", asked)).toBe(JSON.stringify([sha256(photo), 2, "for May"]));
      await heading("All done");
      // the host shows the App again beside the second result
      await host.send({ content: [{ type: "text", text: "" }] });
      await heading("All done");
    },
  );

  test("resumes a file after a cut and a reload of the frame, and sends no byte twice", async () => {
    const size = isDeep ? 2 ** 30 : 40 * 2 ** 20;
    const content = randomBytes(size);
    const path = join(folder, "large.bin");
    await writeFile(path, content);
    host = await hosts.open(site.url, { sandbox: "opaque" });
    const offsets: string[] = [];
    let isCut = false;
    await host.page.context().route(/\/mcp\/u/, async (route) => {
      const request = route.request();
      const offset = request.headers()["upload-offset"];
      if (request.method() === "PATCH" && offset !== "0" && !isCut)
        return route.abort("connectionreset");
      if (request.method() === "PATCH") offsets.push(offset!);
      return route.continue();
    });
    const asked = await host.open("one");
    await choose("File", path);
    await until("large.bin", "Trying again");
    // the conversation is loaded again
    await host.show("one", asked);
    await until("large.bin", "incomplete");
    isCut = true;
    await choose("File", path);
    await until("large.bin", "sent");
    expect(new Set(offsets).size).toBe(offsets.length);
    expect(offsets[0]).toBe("0");
    await press("Done");
    expect(await goOn("one", asked)).toBe(sha256(content));
    await rm(path);
  });

  test("a user who declines is not asked again: the model and the tool are told", async () => {
    const asked = await open("one");
    await choose("File", named("a.txt", Buffer.from("text"), "text/plain"));
    await until("a.txt", "sent");
    await press("Don’t send");
    await heading("Nothing is used");
    await vi.waitFor(() => expect(host.requests).toHaveLength(1));
    expect(host.requests[0]!.params.content[0].text).toBe("I do not want to send files.");
    const { upload_id: uploadId } = asked.structuredContent as { upload_id: string };
    const result = await host.call("one", { upload_id: uploadId });
    expect(result.content).toMatchObject([{ text: expect.stringContaining("declined") }]);
  });

  test("a file of a wrong type or size is not sent, and the field says why", async () => {
    await open("report");
    await choose("Photo", named("a.txt", Buffer.from("text"), "text/plain"));
    await row("a.txt").getByText("This file type is not accepted.").waitFor();
    await choose("Photo", named("big.png", png(5_000_001), "image/png"));
    await row("big.png").getByText("Too big").waitFor();
    await press("Done");
    await host.app.getByText("2 fields need another look.").waitFor();
    expect(host.requests).toEqual([]);
  });

  test("a slot that expires ends the App, before and after it is loaded", async () => {
    const asked = await open("soon");
    await host.app.getByText("The time to send files is over.").waitFor();
    await host.show("soon", asked);
    await heading("This link has expired");
    expect(host.requests).toEqual([]);
  });

  test.each([
    ["does not take messages", { without: ["message"] }],
    ["refuses the message", { refuses: () => true }],
  ] as const)("a user is told what to write if the host %s", async (_what, options) => {
    const asked = await open("one", options);
    await choose("File", named("a.txt", Buffer.from("text"), "text/plain"));
    await until("a.txt", "sent");
    await press("Done");
    await sentence("Tell the assistant to go on with them.");
    const { upload_id: uploadId } = asked.structuredContent as { upload_id: string };
    const result = await host.call("one", { upload_id: uploadId });
    expect(result.content).toMatchObject([{ text: sha256(Buffer.from("text")) }]);
    await heading("All done");
  });

  test("a frame that cannot reach the server offers the page in a tab", async () => {
    host = await hosts.open(site.url);
    let isAway = true;
    await host.page
      .context()
      .route(/\/upload-page\/app\//, (route) =>
        isAway ? route.abort("connectionrefused") : route.continue(),
      );
    const asked = await host.open("one");
    await press("Open the upload page");
    const { page_url: pageUrl } = asked.structuredContent as { page_url: string };
    const opened = { method: "ui/open-link", params: { url: pageUrl } };
    await vi.waitFor(() => expect(host.requests).toEqual([opened]));
    isAway = false;
    await picker("File").waitFor();
  });

  test("request_upload shows the App, and check_upload has the file", async () => {
    const asked = await open("request_upload");
    await choose("File", named("a.txt", Buffer.from("text"), "text/plain"));
    await until("a.txt", "sent");
    await press("Done");
    expect(await goOn("check_upload", asked)).toContain("a.txt, 4 bytes");
  });

  test("shows nothing beside a result that asks for nothing, and says so while a call is open", async () => {
    host = await hosts.open(site.url);
    await host.show("one");
    await host.app.getByText("Waiting for the server").waitFor();
    await host.send({ content: [{ type: "text", text: "done" }] });
    await host.app.getByText("Waiting for the server").waitFor({ state: "detached" });
    expect(await host.app.locator("main").innerText()).toBe("");
  });

  test("a keyboard is enough, and the focus is never lost", async () => {
    await open("one");
    await picker("File").waitFor();
    await picker("File").focus();
    await choose("File", named("a.txt", Buffer.from("text"), "text/plain"));
    await until("a.txt", "sent");
    const names: string[] = [];
    for (let tab = 0; tab < 4; tab++) {
      await host.page.keyboard.press("Tab");
      const focused = "document.activeElement.ariaLabel ?? document.activeElement.innerText";
      names.push(await host.frame().evaluate<string>(focused));
    }
    expect(names.slice(0, 3)).toEqual(["Remove a.txt", "Don’t send", "Done"]);
    await host.app.getByRole("button", { name: "Done" }).focus();
    await host.page.keyboard.press("Enter");
    await heading("Almost done");
    expect(await host.frame().evaluate("document.activeElement.tagName")).toBe("H1");
  });

  /** Fails if anything ran in the App, or stands in it that its script did not make. */
  async function ensureHarmless(): Promise<void> {
    const others = "img, iframe, object, embed, link, base, form:not(#question), a";
    const found = await host
      .frame()
      .evaluate<unknown[]>(
        `[globalThis.hit, document.scripts.length, document.querySelectorAll(${JSON.stringify(others)}).length]`,
      );
    // of 60 and more texts none is markup
    expect(found).toEqual([undefined, 1, 0]);
    expect([host.complaints, host.strays]).toEqual([[], []]);
  }

  test("hostile names, types, results and messages run no script and reach no other origin", async () => {
    await open("hostile");
    await host.app.locator("#question").waitFor();
    await ensureHarmless();
    const asked = await host.call("request_upload");
    // a window of its own for each: an App shows the first upload that it is given
    for (const url of hostileUrls(site.url)) {
      const app = { url, message: hostileTexts[0] };
      const data = { page_url: url };
      const _meta = { "dev.sluice/uploads": { app } };
      await host.send({ ...asked, _meta, structuredContent: data });
    }
    await host.app.locator("#question").waitFor();
    for (const message of hostileMessages) await host.post(message);
    await ensureHarmless();
    await host.show("request_upload", asked);
    await picker("File").waitFor();
    for (const [at, text] of hostileTexts.entries()) {
      await choose("File", named(text, Buffer.from(text), hostileTexts.at(-at)));
      await host.app.locator("li.file").waitFor();
      await ensureHarmless();
    }
    expect(await host.app.locator("li.file .name").innerText()).toContain("a");
    expect(host.requests).toEqual([]);
  });

  test("the checks notice a script that runs, and a request to another origin", async () => {
    await open("one");
    await picker("File").waitFor();
    await host.frame().evaluate("globalThis.hit = 1");
    await expect(ensureHarmless()).rejects.toThrow("deeply equal");
    await host.frame().evaluate("delete globalThis.hit");
    await ensureHarmless();
    await host.page.evaluate("fetch('https://evil.example/').catch(() => {})");
    await expect(ensureHarmless()).rejects.toThrow("deeply equal");
    expect(host.strays.splice(0)).toEqual(["https://evil.example/"]);
  });

  describe.each([
    [320, "light"],
    [320, "dark"],
    [1_000, "light"],
    [1_000, "dark"],
  ] as const)("at %i px, %s", (width, theme) => {
    async function look(state: string): Promise<void> {
      await host.page.screenshot({ path: join(shots, `${state}-${width}-${theme}.png`) });
      const frame = host.frame();
      const overflow = "document.documentElement.scrollWidth - innerWidth";
      expect(await frame.evaluate(overflow), `${state} scrolls sideways`).toBeLessThanOrEqual(0);
      await frame.evaluate(axe.source);
      const found = await frame.evaluate(
        `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).join(" ")))`,
      );
      expect(found, state).toEqual([]);
    }

    test("every state fits, in the theme of the host, with contrast, names and roles", async () => {
      // the browser prefers the other theme
      const colorScheme = theme === "dark" ? "light" : "dark";
      await open("report", { viewport: { width, height: 900 }, theme, colorScheme });
      await picker("Photo").waitFor();
      const background = await host
        .frame()
        .evaluate("getComputedStyle(document.body).backgroundColor");
      expect(background).toBe(theme === "dark" ? "rgb(25, 28, 35)" : "rgb(255, 255, 255)");
      await look("form");
      await choose("Photo", named(`${"a long name ".repeat(12)}.png`, png(1_000), "image/png"));
      await until("a long name", "sent");
      await choose("Papers", named("b.txt", Buffer.from("b"), "text/plain"));
      await until("b.txt", "sent");
      await press("Done");
      await host.app.getByText("One field needs another look.").waitFor();
      await look("wrong");
      await host.app.getByLabel("Note").fill("n");
      await press("Done");
      await heading("Almost done");
      await look("ending");
      await host.setTheme(theme === "dark" ? "light" : "dark");
      await host.page.waitForFunction(() => true);
      expect(await host.frame().evaluate("document.documentElement.dataset.theme")).toBe(
        colorScheme,
      );
    });
  });

  test("axe and the look at the width notice a bad state", async () => {
    await open("one");
    await picker("File").waitFor();
    const frame = host.frame();
    await frame.evaluate(
      `document.querySelector("main").append(Object.assign(document.createElement("img"), { width: 4000 }))`,
    );
    await frame.evaluate(axe.source);
    const found = await frame.evaluate(
      "axe.run().then(({ violations }) => violations.map(({ id }) => id))",
    );
    expect(found).toContain("image-alt");
    expect(await frame.evaluate("document.documentElement.scrollWidth > innerWidth")).toBe(true);
  });
});
