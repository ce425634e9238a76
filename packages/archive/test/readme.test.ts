import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { bytesOf } from "./file-set.ts";

// #region archive-of
import { type ArchiveFile, archiveOf } from "@sluice/archive";
import type { StorageBackend } from "@sluice/storage";

async function* filesOf(storage: StorageBackend, prefix: string): AsyncGenerator<ArchiveFile> {
  let cursor: string | undefined;
  do {
    const page = await storage.list(cursor ? { prefix, cursor } : { prefix });
    for (const { key } of page.objects)
      yield { key, open: (options) => storage.open(key, options) };
    ({ cursor } = page);
  } while (cursor !== undefined);
}

export function zipOf(storage: StorageBackend, folder: string): ReadableStream<Uint8Array> {
  const prefix = `${folder}/`;
  return archiveOf(filesOf(storage, prefix), { format: "zip", prefix });
}
// #endregion

test("the way to make an archive that the page shows", async () => {
  const storage = createMemoryBackend({ "reports/a.txt": "first", "other/b.txt": "second" });
  const text = Buffer.from(await bytesOf(zipOf(storage, "reports"))).toString();
  expect(text).toContain("a.txt");
  expect(text).toContain("first");
  expect(text).not.toMatch(/reports|second/);
});
