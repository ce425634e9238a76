import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { SluiceError } from "@sluice/core";
import { presentSize } from "../src/download/present-file.ts";

const { signal } = new AbortController();
const sha256 = createHash("sha256").update("content").digest("hex");

async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-present-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "file");
  await writeFile(path, "content");
  return path;
}

test("a file of the promised digest is there, and one of another digest is not", async () => {
  const path = await newFile();
  expect(await presentSize(path, { size: 7, sha256 }, { signal })).toBe(7);
  expect(await presentSize(path, { size: 7, sha256: "0".repeat(64) }, { signal })).toBeUndefined();
});

test.runIf(process.platform === "linux")(
  "a disk that fails is an error that names the file, and is not that of one resource",
  async () => {
    // its first page cannot be read
    const reading = presentSize("/proc/self/mem", { size: 0, sha256 }, { signal });
    await expect(reading).rejects.toSatisfy(
      (error) => SluiceError.is(error) && error.code === "unavailable",
    );
    await expect(reading).rejects.toThrow('"/proc/self/mem" cannot be read (EIO)');
  },
);

test("a file that is being compared ends with its run", async () => {
  const reason = new Error("enough");
  const path = await newFile();
  const reading = presentSize(path, { size: 7, sha256 }, { signal: AbortSignal.abort(reason) });
  await expect(reading).rejects.toBe(reason);
});
