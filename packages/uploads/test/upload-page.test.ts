import { request } from "node:http";
import { createKeyRing, createMemoryStateStore, formatKey, generateKey } from "@sluice/core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { bundle } from "../page/build.mjs";
import type { Fields } from "../src/lib/elicit-fields.ts";
import { acceptText } from "../src/lib/page/accept-text.ts";
import { script, style } from "../src/lib/page/browser-files.ts";
import { html } from "../src/lib/page/html.ts";
import { sizeText } from "../src/lib/page/size-text.ts";
import { createUploadPages } from "../src/lib/page/upload-pages.ts";
import { startPageSite, type PageSite } from "./page-site.ts";

const photo = { type: "file", title: "Photo", accept: ["image/png", ".pdf"] } as const;
const accept = { action: "accept", content: { photo: { name: "a.png" } } };

let site: PageSite;
beforeAll(async () => {
  site = await startPageSite();
});
afterAll(() => site[Symbol.asyncDispose]());

/** Answers as the page does, except for what the test says. */
function post(url: string, body: unknown = accept, init: RequestInit = {}): Promise<Response> {
  return fetch(url, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...init,
    headers: {
      "content-type": "application/json",
      "sec-fetch-site": "same-origin",
      ...(init.headers as Record<string, string>),
    },
  });
}

/** Status of the same without a browser's word on where it comes from: `fetch` always gives one. */
function bare(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const all = { "content-type": "application/json", ...headers };
    const sent = request(url, { method: "POST", agent: false, headers: all }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject).end(JSON.stringify(accept));
  });
}

test("script and style are what the files of the page compile to", async () => {
  const { script: compiled, style: compact } = await bundle();
  // one difference would be printed as two lines of 15 kB
  expect(compiled === script, "run node packages/uploads/page/build.mjs").toBe(true);
  expect(compact === style, "run node packages/uploads/page/build.mjs").toBe(true);
});

test("the page may run and load what this server serves, is kept by nobody and framed by nobody", async () => {
  const { url } = await site.ask({ photo });
  const response = await fetch(url);
  expect(response.status).toBe(200);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "cache-control": "private, no-store, no-transform",
    "content-security-policy":
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  });
  const text = await response.text();
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:/i);
  expect(text).not.toMatch(/https?:\/\/(?!127\.0\.0\.1)/);
});

test("what the page loads has its hash as its name, and is kept for ever", async () => {
  const { url } = await site.ask({ photo });
  const text = await (await fetch(url)).text();
  const paths = [...text.matchAll(/(?:href|src)="(assets\/[^"]+)"/g)].map(([, path]) => path!);
  expect(paths).toHaveLength(2);
  for (const path of paths) {
    expect(path).toMatch(/^assets\/page-[0-9a-f]{16}\.(?:css|js)$/);
    const response = await fetch(new URL(path, url));
    expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(response.headers.get("content-type")).toMatch(/^text\/(?:css|javascript); /);
    expect((await response.text()).length).toBeGreaterThan(1_000);
    const head = await fetch(new URL(path, url), { method: "HEAD" });
    expect(Number(head.headers.get("content-length"))).toBeGreaterThan(1_000);
    expect((await fetch(new URL(`${path}x`, url))).status).toBe(404);
  }
});

const hostile = [
  "<script>alert(1)</script>",
  `"><img src=x onerror=alert(1)>`,
  "</title></section><iframe>",
  "' autofocus onfocus='alert(1)",
  "&lt;b&gt; &amp; \u202eesrever",
];

/** A page on which every text that a server can choose is this one. */
async function pageWith(text: string): Promise<string> {
  const fields = {
    [text]: { type: "file", title: text, description: text, accept: [] },
    note: { type: "string", title: text, description: text, default: text },
    kind: { type: "string", enum: [text], enumNames: [text] },
    tags: { type: "array", items: { type: "string", enum: [text] }, title: text },
  } as Fields;
  const { url } = await site.ask(fields, text);
  return (await fetch(url)).text();
}

/** The tags of a page, without what stands in quotes. */
function tagsOf(page: string): string[] {
  return page.replace(/"[^"]*"/g, '""').match(/<[^>]*>/g) ?? [];
}

test.each(hostile)("text of the server stays text: %s", async (text) => {
  const page = await pageWith(text);
  expect(page.split(html`${text}`.text).length).toBeGreaterThan(10);
  expect(tagsOf(page)).toEqual(tagsOf(await pageWith("plain")));
});

describe("a link", () => {
  test("that was altered, or was made by another server, shows no page", async () => {
    const { url } = await site.ask({ photo });
    const last = url.at(-1) === "A" ? "B" : "A";
    await using other = await startPageSite();
    const foreign = new URL((await other.ask({ photo })).url);
    for (const wrong of [
      url.slice(0, -1) + last,
      `${url}x`,
      site.origin + foreign.pathname,
      `${site.origin}/mcp/upload-page/`,
    ]) {
      const response = await fetch(wrong);
      expect(response.status).toBe(404);
      expect(await response.text()).toContain("This link does not work");
      expect((await post(wrong)).status).toBe(404);
    }
    expect(site.errors).toEqual([]);
  });

  test("ends with its time, and says so in words", async () => {
    const { url, pageId } = await site.ask({ photo });
    const now = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(now + 600_001);
    try {
      const response = await fetch(url);
      expect(response.status).toBe(410);
      expect(await response.text()).toContain("This link has expired");
      expect((await post(url)).status).toBe(410);
      expect(await site.pages.answerOf(pageId)).toBeUndefined();
    } finally {
      vi.restoreAllMocks();
    }
  });

  test("works in another process with the same keys and the same store", async () => {
    const keys = createKeyRing(formatKey(generateKey()));
    const state = createMemoryStateStore();
    const endpoint = { url: "https://a.example/mcp", isLoopback: false };
    const one = createUploadPages({ endpoint, keys, state });
    const other = createUploadPages({ endpoint, keys, state });
    const pageId = "p".repeat(32);
    const question = { mode: "binary", message: "Files?" } as never;
    const url = await one.pageUrl({ pageId, question, expiresAt: Date.now() + 60_000 });
    const page = await other.open(url.slice(url.lastIndexOf("/") + 1));
    expect(page).toMatchObject({ pageId, question, isAnswered: false });
    await other.answer(page, accept);
    expect(await one.answerOf(pageId)).toEqual(accept);
    const elsewhere = createUploadPages({
      endpoint: { url: "https://b.example/mcp", isLoopback: false },
      keys,
      state,
    });
    await expect(elsewhere.open(url.slice(url.lastIndexOf("/") + 1))).rejects.toMatchObject({
      code: "not_found",
    });
  });
});

describe("an answer", () => {
  test("is kept once: the first one counts, and the page then says that it was answered", async () => {
    const { url, pageId } = await site.ask({ photo });
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
    expect((await post(url)).status).toBe(204);
    expect((await post(url, { action: "decline" })).status).toBe(409);
    expect(await site.pages.answerOf(pageId)).toEqual(accept);
    expect(await (await fetch(url)).text()).toContain("Already answered");
  });

  test("comes from the page itself and from nowhere else", async () => {
    const { url, pageId } = await site.ask({ photo });
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await post(url, accept, { headers })).status;
    for (const from of ["cross-site", "same-site", "none"])
      expect(await status({ "sec-fetch-site": from })).toBe(403);
    expect(await status({ origin: "https://evil.example" })).toBe(403);
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
    // a browser that says nothing of the site still says its origin
    expect(await bare(url, {})).toBe(403);
    expect(await bare(url, { host: "evil.example", origin: site.origin })).toBe(421);
    expect(await bare(url, { origin: site.origin })).toBe(204);
  });

  test("that is no JSON of an answer is refused, and nothing is kept", async () => {
    const { url, pageId } = await site.ask({ photo });
    for (const body of [
      "",
      "null",
      "[]",
      "{",
      `{"action":"explode"}`,
      `{"action":"accept","content":7}`,
    ])
      expect((await post(url, body)).status).toBe(400);
    const form = { headers: { "content-type": "text/plain" } };
    expect((await post(url, accept, form)).status).toBe(415);
    const long = { ...accept, content: { photo: "x".repeat(70_000) } };
    expect((await post(url, long)).status).toBe(413);
    expect((await fetch(url, { method: "PUT", body: "x" })).status).toBe(405);
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
    expect(site.errors).toEqual([]);
  });

  test("that is broken off is no error of the server", async () => {
    const { url } = await site.ask({ photo });
    const headers = {
      "content-type": "application/json",
      origin: site.origin,
      "content-length": "90",
    };
    const closed = new Promise<void>((resolve) => {
      site.meddle = (incoming) => {
        incoming.once("close", resolve);
        incoming.once("data", () => sent.destroy());
      };
    });
    const sent = request(url, { method: "POST", agent: false, headers });
    sent.on("error", () => {}).write("{");
    await closed;
    site.meddle = undefined;
    expect((await fetch(url)).status).toBe(200);
    expect(site.errors).toEqual([]);
  });

  test("that nobody waits for any more is not read", async () => {
    const { pageId } = await site.ask({ photo });
    const signal = AbortSignal.abort("the reason");
    await expect(site.pages.answerOf(pageId, { signal })).rejects.toBe("the reason");
  });
});

test.each([
  [0, "0 bytes"],
  [999, "999 bytes"],
  [1_000, "1 kB"],
  [1_250, "1.3 kB"],
  [999_499, "999 kB"],
  [999_600, "1 MB"],
  [10_485_760, "10.5 MB"],
  [5e9, "5 GB"],
])("%d bytes are %s for people", (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});

test.each([
  [[], ""],
  [["*/*"], ""],
  [["image/*"], "images"],
  [["image/png", "application/pdf"], "PNG and PDF"],
  [["image/jpeg", "image/png", ".csv"], "JPEG, PNG and .csv"],
  [["application/vnd.example+json"], "application/vnd.example+json"],
])("%j is named %j", (list, text) => {
  expect(acceptText(list)).toBe(text);
});
