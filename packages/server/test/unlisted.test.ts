import { EXTENSION_ID } from "@sluice/core/internal";
import { createMemoryBackend, type UnlistedCounts, wrapBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createTooled, type TooledOptions } from "./tooled.ts";

const files = { "a.txt": "", "b/c.txt": "", "d.txt": "" };

/** A storage whose every page counts entries that it does not list. */
function storageWith(unlisted: UnlistedCounts, keys: Record<string, string> = files) {
  return wrapBackend(createMemoryBackend(keys), {
    list: (list) => async (options) => ({ ...(await list(options)), unlisted }),
  });
}

/** With `access`, the caller's rules; without, everybody may list everything. */
function tooled(options: TooledOptions) {
  return createTooled({ access: undefined as never, ...options });
}

test("each page of resources/list counts what the storage has and does not list", async () => {
  const { ask } = tooled({ storage: storageWith({ link: 1, control: 2 }), pageSize: 2 });
  const counts: unknown[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask("resources/list", cursor === undefined ? {} : { cursor });
    counts.push(page._meta[EXTENSION_ID]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  expect(counts.length).toBeGreaterThan(1);
  for (const each of counts) expect(each).toEqual({ unlisted: { link: 1, control: 2 } });
});

test("list_files tells the count on its first page, in words", async () => {
  const { call } = tooled({ storage: storageWith({ link: 1, control: 2 }) });
  const words =
    "3 not listed: 1 symbolic link, 2 names with a tab, a newline or another control character";
  const { content, structuredContent } = await call("list_files");
  expect(content[0].text.split("\n")).toContain(`${words}.`);
  expect(structuredContent.unlisted).toBe(words);
});

test("a folder with nothing but unlisted entries is there", async () => {
  const { call } = tooled({ storage: storageWith({ link: 1 }) });
  const { content, isError } = await call("list_files", { folder: "files://demo/links/" });
  expect(isError).toBeUndefined();
  expect(content[0].text).toBe("No files here.\n1 not listed: 1 symbolic link.");
});

test("nobody is told of a count where access rules decide: it may be of hidden files", async () => {
  const { ask, call } = createTooled({ storage: storageWith({ link: 1 }) });
  const texts = [await ask("resources/list"), await call("list_files")].map((each) =>
    JSON.stringify(each),
  );
  expect(texts.filter((each) => /unlisted|not listed/.test(each))).toEqual([]);
});
