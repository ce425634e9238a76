// #region serve
import { protect, type StorageBackend } from "@sluice/storage";
import { createFilesSdkBackend } from "@sluice/storage-files-sdk";
import { fs } from "files-sdk/fs";

/** What a server reads from. Any adapter fits in this place: `gcs({ bucket })`, `dropbox({ … })`, `webdav({ … })` … */
export function createStorage(root: string): StorageBackend {
  return protect(createFilesSdkBackend({ adapter: fs({ root }) }));
}
// #endregion

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

test("the examples of the README work", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-files-sdk-"));
  try {
    await fs({ root }).upload("reports/q1.txt", "12345");
    const storage = createStorage(root);
    const { body } = await storage.open("reports/q1.txt", { range: { start: 2 } });
    expect(await new Response(body).text()).toBe("345");
  } finally {
    await rm(root, { recursive: true });
  }
});
