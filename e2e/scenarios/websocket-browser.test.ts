// @module-tag slow
import { generateKey } from "@sluice/core";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend } from "@sluice/storage";
import { createTickets } from "@sluice/transport-ws";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasBrowser, servePage, startBrowser } from "../bed/browser.ts";
import { bytesOf, sha256 } from "../bed/content.ts";
import type { Listening } from "../bed/listen.ts";
import type { Found, PageGlobals, Visit } from "../bed/programs/page.ts";
import { startWebSocketSite, type WebSocketSite } from "../bed/websocket.ts";

if (!hasBrowser)
  console.log(
    "no Chromium: a server over WebSocket is not tried in a browser (apt-get install chromium)",
  );

const content = bytesOf(3_000_000, "browser");
const uri = "files://site/disk.img";

describe.skipIf(!hasBrowser)("a page in a browser", () => {
  let browser: Browser;
  let page: Page;
  let pages: Listening;
  let site: WebSocketSite;
  let issued = 0;

  beforeAll(async () => {
    const tickets = createTickets({
      keys: [generateKey()],
      state: createMemoryStateStore(),
      url: "ws://127.0.0.1/mcp",
    });
    const authInfo = { token: "ann", clientId: "test", scopes: [], extra: { subject: "ann" } };
    const issue = async (): Promise<string> => {
      issued += 1;
      return (await tickets.issue(authInfo)).ticket;
    };
    [browser, pages] = await Promise.all([startBrowser(), servePage(issue)]);
    page = await browser.newPage();
    const origins = [pages.origin];
    site = await startWebSocketSite({
      files: {},
      sluice: { storage: createMemoryBackend({ "disk.img": content }) },
      ws: { tickets, origins },
      sidecar: { origins },
    });
  });
  afterAll(async () => {
    await browser?.close();
    await pages?.close();
    await site?.[Symbol.asyncDispose]();
  });

  /** Does something in the page of an origin. */
  async function from<Told, Value>(
    origin: string,
    act: (told: Told) => Promise<Value>,
    told: Told,
  ): Promise<Value> {
    try {
      await page.goto(origin);
      return (await page.evaluate(act as never, told)) as Value;
    } catch (error) {
      // below it is a stack of the page, which vitest would take for files here
      // oxlint-disable-next-line preserve-caught-error -- the cause would bring that stack back
      throw new Error((error as Error).message.split("\n", 1)[0]);
    }
  }

  const visitFrom = (origin: string, token: string): Promise<Found> =>
    from(origin, (told: Visit) => (globalThis as unknown as PageGlobals).visit(told), {
      url: site.url,
      downloads: site.downloads,
      token,
      uri,
    });

  /** Status of an answer of the sidecar, where the page may know it. */
  const statusFrom = (origin: string): Promise<number> =>
    from(
      origin,
      async (url: string) => (await fetch(url)).status,
      `${site.downloads}/bytes/streams/none`,
    );

  test("opens a WebSocket with a ticket at a listed origin, and downloads bytes that are its principal's", async () => {
    expect(await visitFrom(pages.origin, "ann")).toEqual({
      uris: [uri],
      mode: "downloadUrl",
      promised: sha256(content),
      sha256: sha256(content),
    });
    expect(issued).toBe(1);
    await expect(visitFrom(pages.origin, "bob")).rejects.toThrow("no such resource");
    expect(await statusFrom(pages.origin)).toBe(404);
  });

  test("gets no WebSocket for its ticket at another origin, and reads no download", async () => {
    const foreign = pages.origin.replace("127.0.0.1", "localhost");
    const before = issued;
    await expect(visitFrom(foreign, "ann")).rejects.toThrow("could not be reached");
    expect(issued).toBe(before + 1);
    await expect(statusFrom(foreign)).rejects.toThrow("Failed to fetch");
  });
});
