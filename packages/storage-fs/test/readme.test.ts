// #region serve
import { createFsBackend } from "@sluice/storage-fs";

/** Reads every file below `reports/`, page by page, and counts the bytes. */
export async function countBytes(root: string): Promise<number> {
  const files = createFsBackend({ root });
  let bytes = 0;
  let cursor: string | undefined;
  do {
    const page = await files.list({ prefix: "reports/", ...(cursor && { cursor }) });
    for (const { key } of page.objects) {
      const { body } = await files.open(key);
      for await (const chunk of body) bytes += chunk.byteLength;
    }
    ({ cursor } = page);
  } while (cursor !== undefined);
  await files.close?.();
  return bytes;
}
// #endregion

// #region write
/** Stores a text that appears whole or not at all, and only where no file is yet. */
export async function store(root: string, key: string, text: string): Promise<void> {
  const files = createFsBackend({ root, writable: true });
  const writer = await files.write?.(key, { ifAbsent: true });
  await writer?.write(Buffer.from(text));
  await writer?.commit();
}
// #endregion

// #region watch
/** Tells about every change below a folder until the signal ends it. */
export async function follow(
  root: string,
  onChange: (key: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const files = createFsBackend({ root });
  for await (const { changed = [], removed = [] } of files.watch?.({ signal }) ?? [])
    for (const key of [...changed, ...removed]) onChange(key);
}
// #endregion

import { expect, test } from "vitest";
import { createTemporaryTree } from "./temporary-tree.ts";

test("the examples of the README work", async () => {
  await using tree = await createTemporaryTree();
  const caller = new AbortController();
  const noticed = new Promise<string>((resolve) => {
    void follow(tree.root, resolve, caller.signal);
  });
  await store(tree.root, "reports/q1.txt", "12345");
  await store(tree.root, "other.txt", "1");
  await expect(store(tree.root, "other.txt", "2")).rejects.toMatchObject({
    code: "precondition_failed",
  });
  expect(await countBytes(tree.root)).toBe(5);
  expect(await noticed).toMatch(/reports|other/);
  caller.abort();
});
