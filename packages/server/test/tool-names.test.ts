// Names as models give them. A further spelling is a line of the table.
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createTooled } from "./tooled.ts";

const screenshot = "Screenshot at 10.00.00\u202fAM.txt";
const keys = [
  "empty.txt",
  "reports/2026/sum.txt",
  "müll.txt",
  screenshot,
  "100% sure.txt",
  "a#b.txt",
];
const storage = createMemoryBackend(Object.fromEntries(keys.map((key) => [key, `of ${key}`])));
const uriOf = (key: string): string =>
  `files://demo/${key.split("/").map(encodeURIComponent).join("/")}`;

const spellings: readonly (readonly [given: string, key: string])[] = [
  ["empty.txt", "empty.txt"],
  ["/empty.txt", "empty.txt"],
  ["./empty.txt", "empty.txt"],
  ["file:///empty.txt", "empty.txt"],
  ["file:///home/ada/files/empty.txt", "empty.txt"],
  ["C:\\files\\empty.txt", "empty.txt"],
  ["Empty.TXT", "empty.txt"],
  ["files://demo/Empty.txt", "empty.txt"],
  ["sum.txt", "reports/2026/sum.txt"],
  ["2026/sum.txt", "reports/2026/sum.txt"],
  ["files://demo/sum.txt", "reports/2026/sum.txt"],
  ["reports\\2026\\sum.txt", "reports/2026/sum.txt"],
  ["mu\u0308ll.txt", "müll.txt"],
  ["files://demo/mu%CC%88ll.txt", "müll.txt"],
  ["Screenshot at 10.00.00 AM.txt", screenshot],
  ["files://demo/Screenshot%20at%2010.00.00%20AM.txt", screenshot],
  ["files://demo/100% sure.txt", "100% sure.txt"],
  ["files://demo/a#b.txt", "a#b.txt"],
];

test.each(spellings)("%s is found, and the result has its URI", async (given, key) => {
  const { call } = createTooled({ storage });
  const uri = uriOf(key);
  for (const tool of ["read_file", "stat_file", "get_download_link"]) {
    const { isError, content, structuredContent } = await call(tool, { uri: given });
    expect([tool, isError]).toEqual([tool, undefined]);
    const found = structuredContent.resource_uri ?? structuredContent.uri;
    expect(decodeURIComponent(found)).toBe(decodeURIComponent(uri));
    expect(content.at(-1).text).toBe(`Found as ${found}`);
  }
});

const folders: readonly (readonly [given: string, uri: string])[] = [
  ["files://demo/reports", "files://demo/reports/"],
  ["files://demo", "files://demo/"],
  ["reports", "files://demo/reports/"],
  ["/reports/", "files://demo/reports/"],
  ["Reports/2026", "files://demo/reports/2026/"],
  ["2026", "files://demo/reports/2026/"],
  ["file:///srv/reports", "files://demo/reports/"],
];

test.each(folders)("the folder %s is found", async (folder, uri) => {
  const { structuredContent } = await createTooled({ storage }).call("list_files", { folder });
  const found = structuredContent.files.map((file: { uri: string }) => file.uri);
  expect(found).toContain("files://demo/reports/2026/sum.txt");
  for (const each of found) expect(each.startsWith(uri)).toBe(true);
});

test.each([
  ["emty.txt", "files://demo/empty.txt"],
  ["files://demo/emptyy.txt", "files://demo/empty.txt"],
  ["reports/2026/sun.txt", "files://demo/reports/2026/sum.txt"],
])("a name that is close to another one, %s, is refused with it", async (given, nearest) => {
  const { isError, content } = await createTooled({ storage }).call("read_file", { uri: given });
  expect([isError, content[0].text]).toEqual([
    true,
    `${given}: No such resource. Nearest: ${nearest}`,
  ]);
});

test("a missing folder is said, with the nearest one", async () => {
  const { call } = createTooled({ storage });
  for (const folder of ["files://demo/report/", "repots"]) {
    const { isError, content } = await call("list_files", { folder });
    expect([isError, content[0].text]).toEqual([
      true,
      `${folder}: No such folder, or nothing in it. Nearest: files://demo/reports/`,
    ]);
  }
  const empty = createTooled({ storage: createMemoryBackend() });
  const all = await empty.call("list_files", { folder: "files://demo/" });
  expect([all.isError, all.content[0].text]).toEqual([undefined, "No files here."]);
});

test("a name that may mean several files means none, and they are named", async () => {
  const twins = createMemoryBackend({
    "a/note.txt": "1",
    "b/note.txt": "2",
    "A.txt": "",
    "a.TXT": "",
  });
  const { call } = createTooled({ storage: twins });
  const note = await call("read_file", { uri: "note.txt" });
  expect(note.content[0].text).toBe(
    "note.txt: No such resource. Nearest: files://demo/a/note.txt, files://demo/b/note.txt",
  );
  const letter = await call("read_file", { uri: "a.txt" });
  expect(letter.content[0].text).toMatch(/Nearest: files:\/\/demo\/(A\.txt|a\.TXT), files/);
});

test("a name means the one mount that has it, and never a mount that the caller does not have", async () => {
  const mount = (name: string) => createMemoryBackend({ [name]: name, "both.txt": "" });
  const { call } = createTooled({
    storage: undefined as never,
    baseUri: undefined as never,
    mounts: [
      { baseUri: "one://x/", storage: mount("first.txt") },
      { baseUri: "two://x/", storage: mount("second.txt") },
      { baseUri: "not://x/", storage: () => undefined },
    ],
  });
  const { structuredContent } = await call("read_file", { uri: "second.txt" });
  expect(structuredContent.uri).toBe("two://x/second.txt");
  const both = await call("read_file", { uri: "both.txt" });
  expect(both.content[0].text).toContain("Nearest: one://x/both.txt, two://x/both.txt");
});

test("names of other schemes mean nothing here", async () => {
  const { call } = createTooled({ storage });
  for (const uri of [
    "https://example.com/empty.txt",
    "other://demo/empty.txt",
    "data:,empty.txt",
  ]) {
    const { isError, content } = await call("read_file", { uri });
    expect([isError, content[0].text]).toEqual([true, `${uri}: No such resource`]);
  }
});

test("files that a caller may not list are neither found nor suggested by any name", async () => {
  const secret = createMemoryBackend({
    "plan-hidden.txt": "secret",
    "kept-hidden/a.txt": "secret",
  });
  const { call } = createTooled({ storage: secret });
  const asked = ["plan-hidden.txt", "Plan-Hidden.txt", "plan-hiden.txt", "/x/plan-hidden.txt"];
  for (const uri of asked)
    for (const tool of ["read_file", "stat_file", "get_download_link"]) {
      const { isError, content } = await call(tool, { uri });
      expect([isError, content]).toEqual([
        true,
        [{ type: "text", text: `${uri}: No such resource` }],
      ]);
    }
  for (const folder of ["kept-hidden", "kept-none"])
    expect((await call("list_files", { folder })).content[0].text).toBe(
      `${folder}: No such folder, or nothing in it`,
    );
});

test("a search for a name is recorded as a list, beside the calls that it led to", async () => {
  const { call, records } = createTooled({ storage });
  await call("read_file", { uri: "empty.txt" });
  expect(records.map(({ action, uri, outcome }) => [action, uri, outcome])).toEqual([
    ["read", "empty.txt", "denied"],
    ["list", undefined, "complete"],
    ["read", "files://demo/empty.txt", "complete"],
  ]);
});
