import { request } from "node:http";
import { createKeyRing, formatKey, generateKey } from "@sluice/core";
import { sizeText } from "@sluice/core/internal";
import { html } from "@sluice/server/internal";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { bundle } from "../page/build.mjs";
import type { Fields } from "../src/elicitation/fields.ts";
import { acceptText } from "../src/elicitation/limits-text.ts";
import { script, style } from "../src/page/browser-files.ts";
import { OpenPages, UploadPageStore } from "../src/page/upload-pages.ts";
import { startPageSite, type PageSite } from "./page-site.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const photo = { type: "file", title: "Photo", accept: ["image/png", ".pdf"] } as const;
const note = { type: "string", title: "Note" } as const;
const answerId = "a".repeat(22);
/** An answer without files: the fields of these tests leave them out where one is given. */
const accept = { answerId, action: "accept", content: { note: "for May" } };
const asked = { photo: { ...photo, required: false }, note } as const;

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

/** What the script of the page is told of it. */
async function statusOf(url: string): Promise<unknown> {
  return (await fetch(url, { headers: { accept: "application/json" } })).json();
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

test("script and style are what the files of the page compile to", { tags: "slow" }, async () => {
  const { script: compiled, style: compact } = await bundle();
  // one difference would be printed as two lines of 15 kB
  expect(compiled === script, "run node packages/uploads/page/build.mjs").toBe(true);
  expect(compact === style, "run node packages/uploads/page/build.mjs").toBe(true);
});

test("the page may run and load what this server serves; no cache keeps it and no other site frames it", async () => {
  const { url } = await site.ask({ photo });
  const response = await fetch(url);
  expect(response.status).toBe(200);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "cache-control": "private, no-store, no-transform",
    "content-security-policy":
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'self'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  });
  const text = await response.text();
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:/i);
  expect(text).not.toMatch(/https?:\/\/(?!127\.0\.0\.1)/);
});

test("an asset of the page has its hash as its name, and is cached for ever", async () => {
  const { url } = await site.ask({ photo });
  const text = await (await fetch(url)).text();
  const paths = [...text.matchAll(/(?:href|src)="(assets\/[^"]+)"/g)].map(([, path]) => path!);
  expect(paths).toHaveLength(3);
  for (const path of paths) {
    expect(path).toMatch(/^assets\/page-[0-9a-f]{16}\.(?:css|js|svg)$/);
    const response = await fetch(new URL(path, url));
    expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(response.headers.get("content-type")).toMatch(
      /^(?:text\/(?:css|javascript)|image\/svg\+xml); /,
    );
    expect((await response.text()).length).toBeGreaterThan(200);
    const head = await fetch(new URL(path, url), { method: "HEAD" });
    expect(Number(head.headers.get("content-length"))).toBeGreaterThan(200);
    expect((await fetch(new URL(`${path}x`, url))).status).toBe(404);
  }
});

test("the page has the name of its server if it has one, as text, and always its host", async () => {
  await using other = await startPageSite({ uploads: { name: "Team & <b>friends</b>" } });
  const pageOf = async (shown: PageSite) => (await fetch((await shown.ask({ photo })).url)).text();
  const named = await pageOf(other);
  expect(named).toContain("<title>Send files to Team &amp; &lt;b&gt;friends&lt;/b&gt;</title>");
  expect(named).toContain(`<bdi class="site">Team &amp; &lt;b&gt;friends&lt;/b&gt;</bdi>`);
  expect(named).toContain(new URL(other.origin).host);
  const plain = await pageOf(site);
  expect(plain).toContain(`<title>Send files to ${new URL(site.origin).host}</title>`);
  expect(plain).not.toContain('<bdi class="site">');
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
  test("shows no page if it was altered, or made by another server", async () => {
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
      expect((await fetch(url, { headers: { accept: "application/json" } })).status).toBe(410);
      expect(await site.pages.answerOf(pageId)).toBeUndefined();
    } finally {
      vi.restoreAllMocks();
    }
  });

  test("works in another process with the same keys and the same store", async () => {
    const keys = createKeyRing(formatKey(generateKey()));
    const stores = createMemoryStores();
    const endpoint = { url: "https://a.example/mcp", isLoopback: false };
    const one = new UploadPageStore({ endpoint, keys, stores });
    const other = new UploadPageStore({ endpoint, keys, stores });
    const pageId = "p".repeat(32);
    const question = { mode: "binary", message: "Files?", uploadEndpoints: {} } as never;
    const expiresAt = Date.now() + 60_000;
    const url = await one.pageUrl({ pageId, question, expiresAt, owner: "" });
    const token = url.slice(url.lastIndexOf("/") + 1);
    const page = await other.open(token);
    expect(page).toMatchObject({ phase: "open", pageId, question });
    if (page.phase === "open") await other.answer(page, { answerId, action: "decline" });
    expect(await one.answerOf(pageId)).toEqual({ action: "decline" });
    await one.conclude(pageId, "declined");
    expect(await other.open(token)).toEqual({ phase: "declined", answerId });
    const elsewhere = new UploadPageStore({
      endpoint: { url: "https://b.example/mcp", isLoopback: false },
      keys,
      stores,
    });
    await expect(elsewhere.open(url.slice(url.lastIndexOf("/") + 1))).rejects.toMatchObject({
      code: "not_found",
    });
  });
});

describe("an answer", () => {
  test("is kept once: the first one counts, and the page says done when the tool has taken it", async () => {
    const { url, pageId } = await site.ask(asked);
    const { answerId: _own, ...result } = accept;
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
    expect(await statusOf(url)).toEqual({ phase: "open" });
    expect((await post(url)).status).toBe(204);
    const other = { answerId: "b".repeat(22), action: "decline" };
    const ensureFirst = async (phase: string, heading: string) => {
      expect((await post(url, other)).status).toBe(409);
      // a reply that was lost is asked for again
      expect((await post(url)).status).toBe(204);
      expect(await statusOf(url)).toEqual({ phase, answerId });
      expect(await (await fetch(url)).text()).toContain(`<h1 tabindex="-1">${heading}</h1>`);
    };
    await ensureFirst("answered", "Almost done");
    expect(await site.pages.answerOf(pageId)).toEqual(result);
    // it is gone where it was kept, and still the first
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
    await ensureFirst("answered", "Almost done");
    await site.pages.conclude(pageId, "accepted");
    await ensureFirst("accepted", "All done");
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
  });

  test("counts once, however many come at the same time while one is taken", async () => {
    const { url, pageId } = await site.ask(asked);
    const given = Array.from({ length: 8 }, (_, n) => ({ ...accept, answerId: `${n}`.repeat(22) }));
    const posts = Promise.all(given.map(async (answer) => (await post(url, answer)).status));
    const results: unknown[] = [];
    for (let n = 0; n < 40; n++) results.push(await site.pages.answerOf(pageId));
    const statuses = await posts;
    results.push(await site.pages.answerOf(pageId));
    expect(results.filter((result) => result !== undefined)).toHaveLength(1);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([204, ...Array<number>(7).fill(409)]);
    const counted = given[statuses.indexOf(204)]!;
    expect(await statusOf(url)).toEqual({ phase: "answered", answerId: counted.answerId });
  });

  test("is rejected with the reason if it does not fit the request, and the page stays open", async () => {
    const { url, pageId } = await site.ask({
      photo,
      note: { ...note, maxLength: 3, required: true },
    });
    for (const [content, detail] of [
      [{ note: "ok" }, /photo.*required/],
      [{ note: "ok", photo: { name: "a.png" } }, /photo.*must be one file/],
      [{ note: "ok", other: 1 }, /other.*not asked for/],
    ] as const) {
      const response = await post(url, { ...accept, content });
      expect(response.status).toBe(400);
      expect(((await response.json()) as { detail: string }).detail).toMatch(detail);
    }
    expect(await statusOf(url)).toEqual({ phase: "open" });
    expect(await site.pages.answerOf(pageId)).toBeUndefined();
  });

  test(
    "names every file that is there, or none of them is given away or lost",
    { tags: "slow" },
    async () => {
      const { url, pageId, slots, owner } = await site.ask({
        papers: { type: "file", multiple: true, maxFiles: 3 },
      });
      const slot = slots.get("papers")!;
      const send = (name: string, body: string) =>
        fetch(slot.url, {
          method: "POST",
          headers: {
            "content-type": "application/octet-stream",
            "content-disposition": `attachment; filename="${name}"`,
          },
          body,
        });
      for (const name of ["a.bin", "b.bin"]) expect((await send(name, name)).status).toBe(201);
      type Overview = { files: { name: string; fileId: string; sha256: string }[] };
      const overview = async () => (await (await fetch(slot.url)).json()) as Overview;
      const { files } = await overview();
      const named = files.map((file) => ({ ...file, uploadId: slot.uploadId, sha256: undefined }));
      const answer = (papers: unknown) => ({ ...accept, content: { papers } });
      for (const wrong of [[named[0]], [named[0], named[0]], [...named, named[0]]]) {
        const response = await post(url, answer(wrong));
        expect(response.status).toBe(409);
        expect(await response.json()).toMatchObject({ reason: "changed" });
      }
      expect((await overview()).files).toHaveLength(2);
      expect((await post(url, answer(named))).status).toBe(204);
      // from then on none is taken back, and what comes beside them is none of the answer
      const removal = await fetch(`${slot.url}/${files[0]!.fileId}`, { method: "DELETE" });
      expect(removal.status).toBe(409);
      expect((await send("a.bin", "late!")).status).toBe(201);
      const taken = (await site.pages.answerOf(pageId)) as { content: { papers: never } };
      const confirmed = await site.uploads.confirm(owner, slot.uploadId, taken.content.papers, {
        unnamed: "remove",
      });
      const digestsOf = (list: readonly { sha256: string }[]) =>
        list.map(({ sha256 }) => sha256).toSorted();
      expect(digestsOf(confirmed)).toEqual(digestsOf(files));
      const reopened = await site.uploads.reopen(owner, slot.uploadId);
      expect(reopened).toHaveLength(2);
    },
  );

  test("comes from the page itself and from nowhere else", async () => {
    const { url, pageId } = await site.ask(asked);
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

  test("is rejected and not stored if it is malformed", async () => {
    const { url, pageId } = await site.ask(asked);
    for (const body of [
      "",
      "null",
      "[]",
      "{",
      { answerId, action: "explode" },
      { answerId, action: "accept", content: 7 },
      { action: "accept", content: {} },
      { answerId: "short", action: "decline" },
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

  test("is not an error of the server if it is interrupted", async () => {
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

  test("is not read if no call waits for it any longer", async () => {
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

describe("state for one principal", () => {
  /** A state store that says how many bytes it holds. */
  function createCountedStore() {
    const inner = createMemoryStateStore();
    const sizes = new Map<string, number>();
    const state: StateStore = {
      ...inner,
      async put(id, record, times) {
        await inner.put(id, record, times);
        // those of slots end with their time
        if (!id.startsWith("token ")) sizes.set(id, record.length);
      },
      async take(id, now) {
        sizes.delete(id);
        return inner.take(id, now);
      },
    };
    return { state, bytes: () => [...sizes.values()].reduce((sum, size) => sum + size, 0) };
  }

  const longest = { ...accept, content: { note: "x".repeat(60_000) } };

  test("holds at most sixteen pages, each with one reply", { tags: "slow" }, async () => {
    const { state, bytes } = createCountedStore();
    await using own = await startPageSite({
      sluice: { stores: { ...createMemoryStores(), state } },
    });
    const ann = { issuer: "https://id.example", subject: "ann", clientId: "c" };
    const bob = { ...ann, subject: "bob" };
    const pages = await Promise.all(
      Array.from({ length: 16 }, () => own.ask(asked, "Files?", ann)),
    );
    for (const { url } of pages) {
      expect((await post(url, longest)).status).toBe(204);
      expect((await post(url, { ...longest, answerId: "b".repeat(22) })).status).toBe(409);
    }
    await expect(own.ask(asked, "Files?", ann)).rejects.toMatchObject({ code: "throttled" });
    expect(bytes()).toBeLessThan(16 * 64 * 1024);
    // others have their own
    await own.ask(asked, "Files?", bob);
    // one that has ended makes room for another
    const { pageId } = pages[0]!;
    await own.pages.answerOf(pageId);
    await own.pages.conclude(pageId, "accepted");
    await own.ask(asked, "Files?", ann);
  });

  test("is bounded for all anonymous callers together, with more pages than for one", async () => {
    const places = new OpenPages(createMemoryStateStore());
    const times = { now: Date.now(), expiresAt: Date.now() + 60_000 };
    const tries = Array.from({ length: 600 }, () => places.take("", times));
    const settled = await Promise.allSettled(tries);
    const taken = settled.filter(({ status }) => status === "fulfilled").length;
    expect(taken).toBeLessThanOrEqual(256);
    expect(taken).toBeGreaterThan(200);
  });

  test("drops replies once they are taken, and a message has a maximum length", async () => {
    const { state, bytes } = createCountedStore();
    await using own = await startPageSite({
      sluice: { stores: { ...createMemoryStores(), state } },
    });
    const rounds = isDeep ? 1_000 : 15;
    const ann = { issuer: "https://id.example", subject: "ann", clientId: "c" };
    for (let n = 0; n < rounds; n++) {
      const { url, pageId } = await own.ask(asked, "Files?", ann);
      expect((await post(url, longest)).status).toBe(204);
      expect(await own.pages.answerOf(pageId)).toMatchObject({ content: longest.content });
      await own.pages.conclude(pageId, "accepted");
    }
    expect(bytes()).toBeLessThan(rounds * 100);
    await expect(own.ask(asked, "x".repeat(70_000), ann)).rejects.toMatchObject({
      code: "too_large",
    });
  });
});
