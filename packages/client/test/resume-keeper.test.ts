import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { PartFile } from "../src/save/part-file.ts";
import { ResumeKeeper } from "../src/save/resume-record.ts";

test("progress is recorded four times a second, after the bytes are on the disk, and once at a time", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  let written = 0;
  const syncs: (() => void)[] = [];
  const part = {
    path: join(directory, `.${"a".repeat(32)}.kept`),
    gapless: () => written,
    sync: () => new Promise<void>((resolve) => syncs.push(resolve)),
  } as unknown as PartFile;
  const path = join(directory, "record.json");
  const version = { uri: "x://a", etag: '"v1"', size: 100 };
  const keeper = new ResumeKeeper(part, path, () => version);
  const recordedBytes = async (): Promise<unknown> =>
    JSON.parse(await readFile(path, "utf8").catch(() => "{}")).keptBytes;
  function arrive(bytes: number, afterMs: number): void {
    vi.setSystemTime(Date.now() + afterMs);
    written = bytes;
    keeper.note();
  }

  arrive(10, 249);
  arrive(20, 1);
  await expect.poll(() => syncs.length).toBe(1);
  // a disk that is busy with one record gets no second one
  arrive(30, 10_000);
  expect(await recordedBytes()).toBe(undefined);
  syncs[0]!();
  await expect.poll(recordedBytes).toBe(20);
  await expect.poll(() => (arrive(40, 250), syncs.length)).toBe(2);
  syncs[1]!();
  await expect.poll(recordedBytes).toBe(40);
  await keeper.forget();
  expect(await recordedBytes()).toBe(undefined);
});
