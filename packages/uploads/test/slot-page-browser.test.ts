// @module-tag slow
import { McpServer } from "@modelcontextprotocol/server";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { hasBrowser, startBrowser } from "../../../e2e/bed/browser.ts";
import { uploadIdInput } from "../src/index.ts";
import { connectAnswerer, createToolServer } from "./asking.ts";
import { alice, startUploadServer, type UploadServer } from "./upload-server.ts";

if (!hasBrowser)
  console.log("no Chromium: short slots are not opened in a browser (apt-get install chromium)");

const note = { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a note") };

/** Waits until the page says that the file is there. */
const sent = (page: Page): Promise<void> =>
  page.getByRole("listitem").locator(".meta").filter({ hasText: "sent" }).waitFor();

/** A client of a host that can be asked nothing, and its tool. */
async function connect({ sluice, uploads }: UploadServer) {
  const fetch = createToolServer(
    sluice,
    async () => ({ content: [] }),
    (mcp: McpServer) => {
      const inputSchema = z.object({ upload_id: uploadIdInput() });
      mcp.registerTool("send", { inputSchema }, async ({ upload_id: uploadId }, ctx) => {
        const fields = { file: { type: "file" } } as const;
        const asked = { message: "A note, please", fields, uploadId };
        const outcome = await uploads.ask(asked, { mcp, ctx });
        if (outcome.action === "ask") return outcome.result;
        return { content: [{ type: "text", text: JSON.stringify(outcome) }] };
      });
    },
  );
  const client = await connectAnswerer({ era: "modern", fetch, capabilities: {}, token: "alice" });
  return async (upload_id?: string) => client.callTool({ name: "send", arguments: { upload_id } });
}

describe.skipIf(!hasBrowser)("a short slot in a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser?.close());

  test("the link of a tool's answer is the page of its question, and the next call goes on when Done is pressed", async () => {
    const server = await startUploadServer();
    const call = await connect(server);
    const { structuredContent } = await call();
    const { page_url, upload_id } = structuredContent as Record<string, string>;
    const page = await browser.newPage();
    await page.goto(page_url!);
    await page.getByText("A note, please").waitFor();
    await page.getByRole("button", { name: "for file" }).setInputFiles([note]);
    await sent(page);
    const waiting = call(upload_id);
    await page.getByRole("button", { name: "Done" }).click();
    const [content] = (await waiting).content as { text: string }[];
    expect(JSON.parse(content!.text)).toMatchObject({
      action: "accept",
      files: { file: { name: "note.txt", size: 6 } },
    });
    await page.getByRole("heading", { name: "All done" }).waitFor();
    await page.close();
  });

  test("the URL of any other slot is a page for its files, which says when they were taken", async () => {
    const server = await startUploadServer();
    const terms = { accept: [], maxBytes: 1_000, maxFiles: 1 };
    const slot = await server.uploads.reserve(alice, terms, { selfAuthenticating: true });
    const page = await browser.newPage();
    await page.goto(slot.url);
    await page.getByRole("button", { name: "for File" }).setInputFiles([note]);
    await sent(page);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("heading", { name: "Almost done" }).waitFor();
    const came = await server.uploads.received(alice, slot.uploadId);
    await server.uploads.confirm(alice, slot.uploadId, came);
    await page.getByRole("heading", { name: "All done" }).waitFor();
    expect(came).toMatchObject([{ name: "note.txt", size: 6 }]);
    await page.close();
  });
});
