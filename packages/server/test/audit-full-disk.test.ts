import { execFileSync } from "node:child_process";
import {
  mkdtemp,
  open,
  readFile,
  rm,
  stat,
  statfs,
  writeFile,
  type FileHandle,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditRecord } from "@sluice/server";
import { openAuditFile, verifyAuditFiles } from "@sluice/server/node";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-full-"));
});
afterAll(() => rm(root, { recursive: true }));
afterEach(() => void vi.restoreAllMocks());

let count = 0;
const newPath = (): string => join(root, `${(count += 1)}.log`);

const recordOf = (n: number, outcome: AuditRecord["outcome"] = "begun"): AuditRecord => ({
  id: `op-${n}`,
  time: 1_700_000_000_000 + n,
  action: "download",
  outcome,
  bytes: 0,
  durationMs: 1,
});

const linesOf = async (path: string): Promise<Record<string, unknown>[]> =>
  (await readFile(path, "utf8"))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

/** Makes every disk full but for what a reserve gives back. Gives the function that makes room. */
async function fillDisk(): Promise<(bytes: number) => void> {
  const probe = await open(join(root, "probe"), "w");
  const handle = Object.getPrototypeOf(probe) as FileHandle;
  await probe.close();
  let left = 0;
  const take = (bytes: number): void => {
    if (bytes > left) throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
    left -= bytes;
  };
  const own = Object.getOwnPropertyDescriptors(handle);
  const call = (name: keyof FileHandle, file: FileHandle, args: unknown[]): Promise<never> =>
    Reflect.apply(own[name].value as () => Promise<never>, file, args);
  vi.spyOn(handle, "appendFile").mockImplementation(async function (this: FileHandle, data) {
    take((data as Buffer).length);
    return call("appendFile", this, [data]);
  });
  vi.spyOn(handle, "write").mockImplementation(async function (this: FileHandle, ...args) {
    take(Number(args[2]));
    return call("write", this, args);
  });
  vi.spyOn(handle, "truncate").mockImplementation(async function (this: FileHandle, length = 0) {
    left += (await this.stat()).size - length;
    return call("truncate", this, [length]);
  });
  return (bytes) => void (left += bytes);
}

test("refusals stop first on a full disk, and records that responses wait for are still kept", async () => {
  const path = newPath();
  const warnings: string[] = [];
  const onWarning = (message: string): void => void warnings.push(message);
  const { sink, close } = await openAuditFile({
    path,
    reserveBytes: 128 * 1024,
    sync: "never",
    onWarning,
  });
  await sink(recordOf(0));
  await fillDisk();
  for (let n = 1; n <= 100; n++) {
    await sink(recordOf(n));
    await sink(recordOf(n, "denied"));
    await sink({ ...recordOf(n, "aborted"), count: 10 });
  }
  await close();
  const kept = (await linesOf(path)).filter(({ id }) => id !== undefined);
  expect(kept.filter(({ outcome }) => outcome === "begun")).toHaveLength(101);
  // the first refusal came when the disk was known to be full already
  expect(kept.filter(({ outcome }) => outcome !== "begun")).toEqual([]);
  expect(warnings).toEqual([expect.stringContaining("is full")]);
  expect(await linesOf(path)).toContainEqual(expect.objectContaining({ event: "full" }));
  expect((await verifyAuditFiles([path])).findings).toEqual([]);
});

test("negative control: without a reserve, nothing is kept from the first full write on", async () => {
  const path = newPath();
  const { sink, close } = await openAuditFile({ path, reserveBytes: 0 });
  await sink(recordOf(0));
  await fillDisk();
  for (const outcome of ["begun", "denied"] as const)
    await expect(sink(recordOf(1, outcome))).rejects.toMatchObject({ code: "unavailable" });
  await close();
  expect(await linesOf(path)).toHaveLength(2);
});

test("records are rejected once the reserve is used up, and the chain stays whole", async () => {
  const path = newPath();
  const options = { path, reserveBytes: 64 * 1024, onWarning() {} };
  const { sink, close } = await openAuditFile(options);
  await fillDisk();
  let kept = 0;
  const fill = async (): Promise<void> => {
    for (;;) {
      await sink({ ...recordOf(kept), uri: "x".repeat(4_000) });
      kept += 1;
    }
  };
  await expect(fill()).rejects.toMatchObject({ code: "unavailable" });
  await expect(sink(recordOf(0))).resolves.toBeUndefined();
  await close();
  expect(kept).toBeGreaterThan(10);
  expect((await verifyAuditFiles([path])).findings).toEqual([]);
});

test("a disk that has room again is held again, and a line says how many refusals were only counted", async () => {
  const path = newPath();
  const warnings: string[] = [];
  const onWarning = (message: string): void => void warnings.push(message);
  const { sink, close } = await openAuditFile({ path, reserveBytes: 128 * 1024, onWarning });
  const makeRoom = await fillDisk();
  await sink(recordOf(0));
  await sink(recordOf(1, "denied"));
  await sink({ ...recordOf(2, "denied"), count: 41 });
  makeRoom(10 ** 6);
  const now = Date.now();
  vi.spyOn(Date, "now").mockReturnValue(now + 11_000);
  await sink(recordOf(3));
  await sink(recordOf(4, "denied"));
  await close();
  expect((await linesOf(path)).slice(1)).toMatchObject([
    { event: "full" },
    { id: "op-0" },
    { id: "op-3" },
    { event: "freed", refusals: 42, time: now + 11_000 },
    { id: "op-4", outcome: "denied" },
  ]);
  expect(warnings).toHaveLength(2);
  expect((await stat(`${path}.reserve`)).size).toBe(128 * 1024);
  expect((await verifyAuditFiles([path])).findings).toEqual([]);
});

test("a disk that is full at the start is said to be", async () => {
  const path = newPath();
  const warnings: string[] = [];
  const makeRoom = await fillDisk();
  makeRoom(1_000);
  const { sink, close } = await openAuditFile({
    path,
    onWarning: (message) => void warnings.push(message),
  });
  await sink(recordOf(0));
  await close();
  expect(warnings).toHaveLength(1);
});

test("a reserve of no whole number of bytes is refused", async () => {
  for (const reserveBytes of [-1, 0.5, Number.NaN])
    await expect(openAuditFile({ path: newPath(), reserveBytes })).rejects.toThrow(RangeError);
});

const canMount = process.platform === "linux" && process.getuid?.() === 0;
if (!canMount) console.log("a real full disk: skipped, only root can mount one");
describe.runIf(canMount)("a real disk of 2 MiB that another program fills", () => {
  let disk = "";
  beforeAll(async () => {
    disk = await mkdtemp(join(root, "disk-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  });
  afterAll(() => void execFileSync("umount", ["--lazy", disk]));

  test(
    "three hundred records that answers wait for are kept, and refusals are not",
    { tags: "slow" },
    async () => {
      const path = join(disk, "audit.log");
      const { sink, close } = await openAuditFile({ path, onWarning() {} });
      await sink(recordOf(0));
      await expect(writeFile(join(disk, "ballast"), Buffer.alloc(2 ** 21))).rejects.toThrow(
        "ENOSPC",
      );
      expect((await statfs(disk)).bavail).toBe(0);
      for (let n = 1; n <= 300; n++) {
        await sink(recordOf(n));
        await sink(recordOf(n, "denied"));
      }
      await close();
      const kept = (await linesOf(path)).filter(({ outcome }) => outcome === "begun");
      expect(kept).toHaveLength(301);
      expect((await verifyAuditFiles([path])).findings).toEqual([]);
      // a new process goes on there
      await rm(join(disk, "ballast"));
      const again = await openAuditFile({ path, onWarning() {} });
      await again.sink(recordOf(2_000));
      await again.close();
      expect((await verifyAuditFiles([path])).findings).toEqual([]);
    },
  );
});
