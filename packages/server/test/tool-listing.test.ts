import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createTooled } from "./tooled.ts";

const numbered = (count: number, folder: string): Record<string, string> =>
  Object.fromEntries(
    Array.from({ length: count }, (_, n) => [`${folder}${String(n).padStart(5, "0")}.txt`, "x"]),
  );

type Tooled = ReturnType<typeof createTooled>;

/** Every page of a list. */
async function pagesOf({ call }: Tooled, args: object = {}) {
  const pages: { uris: string[]; cursor?: string; folders?: object[]; templates?: object[] }[] = [];
  let cursor: string | undefined;
  do {
    const { structuredContent } = await call("list_files", { ...args, cursor });
    const { files, folders, templates } = structuredContent;
    cursor = structuredContent.next_cursor;
    const uris = files.map(({ uri }: { uri: string }) => uri);
    pages.push({ uris, cursor: cursor!, folders, templates });
  } while (cursor !== undefined);
  return pages;
}

/** A storage that lists in no order, as a folder does. */
function unsorted(files: Record<string, string>) {
  const keys = Object.keys(files).toSorted(() => 1);
  return createMemoryBackend(
    Object.fromEntries(keys.toReversed().map((key) => [key, files[key]!])),
  );
}

describe("list_files", () => {
  test("is sorted, 200 a page, with cursors below 80 characters, whatever the names are", async () => {
    const long = Object.fromEntries(
      Object.entries(numbered(450, "")).map(([name, text]) => [`${"ä".repeat(200)}/${name}`, text]),
    );
    const tooled = createTooled({ storage: unsorted(long) });
    const pages = await pagesOf(tooled);
    expect(pages.map(({ uris }) => uris.length)).toEqual([200, 200, 50]);
    const all = pages.flatMap(({ uris }) => uris);
    expect(all).toEqual(all.toSorted());
    for (const { cursor = "" } of pages) expect(cursor.length).toBeLessThan(80);
  });

  test("names the folders directly below on its first page, with how many files they have", async () => {
    const storage = createMemoryBackend({ ...numbered(250, "a/b/"), ...numbered(3, "c/"), d: "" });
    const tooled = createTooled({ storage });
    const [first, second] = await pagesOf(tooled);
    expect(first?.folders).toEqual([
      { uri: "files://demo/a/", files: 250 },
      { uri: "files://demo/c/", files: 3 },
    ]);
    expect(second?.folders).toBeUndefined();
    const inner = await tooled.call("list_files", { folder: "files://demo/a/" });
    expect(inner.structuredContent.folders).toEqual([{ uri: "files://demo/a/b/", files: 250 }]);
    expect(inner.content[1].text).toBe("Folder: files://demo/a/b/, files: 250");
  });

  const files = { "Report.PDF": "", "old/report-1.pdf": "", "old/a.txt": "", "müll.csv": "" };

  test.each([
    ["report", ["Report.PDF", "old/report-1.pdf"]],
    ["*.pdf", ["Report.PDF", "old/report-1.pdf"]],
    ["r*.pdf", ["Report.PDF", "old/report-1.pdf"]],
    ["report*1*pdf", ["old/report-1.pdf"]],
    ["old/*.pdf", ["old/report-1.pdf"]],
    ["mu\u0308ll", ["müll.csv"]],
    ["report.pdf*x", []],
    ["rep*report.pdf", []],
    [".*", []],
  ])("filters by name: %s", async (filter, expected) => {
    const { call } = createTooled({ storage: createMemoryBackend(files) });
    const { structuredContent, content } = await call("list_files", { filter });
    const found = structuredContent.files.map(({ uri }: { uri: string }) =>
      decodeURIComponent(uri).slice("files://demo/".length),
    );
    expect(found).toEqual(expected);
    expect(content[0].text === "No name matches.").toBe(expected.length === 0);
  });

  test("a filter of stars takes no longer than any other", async () => {
    const storage = createMemoryBackend({ [`${"a".repeat(900)}.txt`]: "" });
    const started = performance.now();
    await createTooled({ storage }).call("list_files", { filter: "a*".repeat(400) + "b" });
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  test("goes on behind what the last page ended with, also when files come or go in between", async () => {
    const storage = createMemoryBackend(numbered(300, ""));
    const { call } = createTooled({ storage });
    const { structuredContent: first } = await call("list_files");
    await storage.remove("00000.txt");
    storage.put("00001a.txt", "new");
    storage.put("00001b.txt", "new");
    const next = await call("list_files", { cursor: first.next_cursor });
    expect(next.structuredContent.files[0].uri).toBe("files://demo/00200.txt");
  });

  test("a cursor is good for its folder, filter and caller only, and one that is made up for none", async () => {
    const storage = createMemoryBackend(numbered(300, "a/"));
    const { call } = createTooled({ storage });
    const { structuredContent } = await call("list_files", { folder: "a", filter: "txt" });
    const { next_cursor: cursor } = structuredContent;
    const good = { folder: "a", filter: "txt", cursor };
    expect((await call("list_files", good)).isError).toBeUndefined();
    for (const change of [
      { folder: null },
      { filter: "" },
      { cursor: "9.0.0.0" },
      { cursor: "x" },
    ]) {
      const { isError, content } = await call("list_files", { ...good, ...change });
      expect([isError, content[0].text]).toEqual([true, expect.stringContaining("begin without")]);
    }
  });

  test("lists more files than it looks through at once, each once", async () => {
    const tooled = createTooled({ storage: createMemoryBackend(numbered(10_150, "")) });
    const pages = await pagesOf(tooled, { filter: "*0.txt" });
    const all = pages.flatMap(({ uris }) => uris);
    expect(pages.map(({ uris }) => uris.length)).toEqual([200, 200, 200, 200, 200, 15]);
    expect([all.length, new Set(all).size]).toEqual([1_015, 1_015]);
    const filtered = await tooled.call("list_files", { filter: "10149" });
    expect(filtered.structuredContent.files).toHaveLength(1);
  });

  test("ends after 100,000 files, and says so", async () => {
    let asked = 0;
    const endless = wrapBackend(createMemoryBackend(), {
      list:
        () =>
        async ({ limit = 1, cursor = "0" } = {}) => {
          asked += limit;
          const from = Number(cursor);
          const objects = Array.from({ length: limit }, (_, at) => ({ key: `${from + at}.txt` }));
          return { objects, cursor: String(from + limit) };
        },
    });
    const { call } = createTooled({ storage: endless });
    const { content, structuredContent } = await call("list_files", { filter: "no such name" });
    // access rules look one ahead on each page
    expect(asked).toBe(100 * 1_001);
    expect(structuredContent.next_cursor).toBeUndefined();
    expect(content[0].text).toContain("name a folder");
  });

  test("tells of providers: templates, and the size that describe knows", async () => {
    const { call, sluice } = createTooled({ storage: createMemoryBackend({ "a.txt": "" }) });
    sluice.provide("report://{month}", { open: async () => "x", title: "Monthly report" });
    sluice.provide("now://report", {
      open: async () => "12345",
      describe: async () => ({ size: 5, mimeType: "text/plain" }),
    });
    const { structuredContent, content } = await call("list_files");
    expect(structuredContent.files[0]).toMatchObject({ uri: "now://report", size: 5 });
    expect(structuredContent.templates).toEqual([
      { uri_template: "report://{month}", title: "Monthly report" },
    ]);
    expect(content[1].text).toContain("Made on demand: report://{month}, Monthly report");
  });
});

describe("stat_file", () => {
  test("gives size, type, time, digest and version of one file, as far as they are known", async () => {
    const storage = createMemoryBackend({ "a.txt": "one" });
    const { call } = createTooled({ storage });
    const uri = "files://demo/a.txt";
    const { structuredContent, content } = await call("stat_file", { uri });
    expect(structuredContent).toEqual({
      uri,
      size: 3,
      mime_type: "text/plain",
      modified: expect.stringMatching(/^\d{4}-.*Z$/),
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      etag: (await call("read_file", { uri })).structuredContent.etag,
    });
    expect(content[0].text).toBe(
      `a.txt, 3 bytes, text/plain, changed ${structuredContent.modified}, sha-256 ${structuredContent.sha256}`,
    );
  });

  test("says the same of hidden and of missing files, and nothing of what the author registered", async () => {
    const storage = createMemoryBackend({ "hidden.txt": "secret", "own.txt": "own" });
    const { call } = createTooled({ storage, own: "files://demo/own.txt" });
    const ask = async (name: string) =>
      (await call("stat_file", { uri: `files://demo/${name}` })).content[0].text;
    expect(await ask("hidden.txt")).toBe("files://demo/hidden.txt: No such resource");
    for (const name of ["own.txt", "%6Fwn.txt"])
      expect(await ask(name)).toBe(`files://demo/${name}: No such resource`);
  });
});
