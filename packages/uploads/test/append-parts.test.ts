import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test, vi } from "vitest";
import { createPartAppender } from "../src/resumable/file-in-parts.ts";
import { folderOf, uploadPrefix } from "../src/store/layout.ts";
import { listAll, toUploadStorage } from "../src/store/upload-storage.ts";
import { noise } from "./upload-server.ts";

const uploadId = "A".repeat(32);
const folder = folderOf({ uploadId, owner: "0a", expiresAt: 5_000 });
const { signal } = new AbortController();

function createFile(ensureOurs: () => void = () => {}) {
  const storage = toUploadStorage(createMemoryBackend());
  const fileId = "B".repeat(32);
  const options = { folder, fileId, offset: 0, ensureOurs };
  return {
    appender: createPartAppender(storage, options),
    sizes: async () =>
      (await listAll(storage, uploadPrefix(uploadId), signal)).map(({ size }) => size),
  };
}

test("storage shows each minute that a slow upload continues", async () => {
  const { appender, sizes } = createFile();
  const now = vi.spyOn(performance, "now");
  onTestFinished(() => now.mockRestore());
  for (const ms of [0, 59_000, 60_000, 61_000, 119_000, 121_000]) {
    now.mockReturnValue(ms);
    await appender.write(noise(10));
    // it is written in a task of its own
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await appender.end()).toBe(60);
  expect(await sizes()).toEqual([30, 30]);
});

test("a request that no longer has the file keeps nothing more of what came", async () => {
  let isOurs = true;
  const { appender, sizes } = createFile(() => {
    if (!isOurs) throw new Error("another request has it");
  });
  await appender.write(noise(8 * 2 ** 20));
  await appender.write(noise(10));
  isOurs = false;
  await expect(appender.end()).rejects.toThrow("another request has it");
  expect(await sizes()).toEqual([8 * 2 ** 20]);
});
