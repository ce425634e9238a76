import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { saveResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { startFileServer } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Saves a file of a size and gives the names that its folder had meanwhile. */
async function namesOf(bytes: number): Promise<readonly string[]> {
  const names = new Set<string>();
  const watcher = watch(directory, (_, name) => void (name !== null && names.add(name)));
  const content = Buffer.alloc(bytes, "small ");
  await using server = await startFileServer({ content });
  const client = createRawClient(server.url, withStreaming());
  const saved = await saveResource(client, "x://a/b.bin", directory, { resume: true });
  expect(content.equals(await readFile(saved.path))).toBe(true);
  // events come a little later
  await expect.poll(() => names.has("b.bin")).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 100));
  watcher.close();
  return [...names].toSorted();
}

test.runIf(process.platform === "linux")(
  "a small file has one hidden file on its way and no record, a larger one both",
  async () => {
    expect(await namesOf(512 * 1_024)).toEqual([
      expect.stringMatching(/^\.[0-9a-f]{32}\.part$/),
      "b.bin",
    ]);
    await rm(join(directory, "b.bin"));
    const names = await namesOf(512 * 1_024 + 1);
    expect(names).toContainEqual(expect.stringMatching(/\.kept\.json$/));
  },
);

test("a small file has the permissions of any new file", async () => {
  const before = process.umask(0o027);
  try {
    await namesOf(10);
    expect((await stat(join(directory, "b.bin"))).mode & 0o777).toBe(0o640);
  } finally {
    process.umask(before);
  }
});
