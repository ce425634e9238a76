import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";
import { createServedUploads } from "../src/lib/serve-uploads.ts";
import { makeWaitingFolder } from "../src/lib/waiting-folder.ts";

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-waiting-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** As if another process had made it. */
async function leftBy(pid: number, folder: string, left: string): Promise<string> {
  const path = left.replace(`-${process.pid}-`, `-${pid}-`);
  await mkdir(join(path, "uploads"), { recursive: true });
  await writeFile(join(path, "uploads", "bytes"), "somebody's");
  expect(join(folder, basename(path))).toBe(path);
  return basename(path);
}

test("what a killed process left goes with the next start, and what others still use stays", async () => {
  const folder = await makeFolder();
  const first = await makeWaitingFolder(folder);
  const dead = spawn(process.execPath, ["--version"], { stdio: "ignore" });
  await once(dead, "exit");
  await leftBy(dead.pid!, folder, first.path);
  const alive = await leftBy(process.ppid, folder, first.path);
  const elsewhere = first.path.replace(/-[0-9a-f]{12}-/, "-0123456789ab-");
  await mkdir(elsewhere);
  await mkdir(join(folder, ".sluice-uploads-mine"));
  // a process of this number that was here before us, as in a container
  const before = await leftBy(process.pid, folder, `${first.path.slice(0, -6)}before`);
  const second = await makeWaitingFolder(folder);
  expect((await readdir(folder)).toSorted()).toEqual(
    [first.path, second.path, alive, elsewhere, ".sluice-uploads-mine"]
      .map((path) => basename(path))
      .toSorted(),
  );
  expect(before).toMatch(/before$/);
  await first.remove();
  await first.remove();
  await second.remove();
  expect(await readdir(folder)).toHaveLength(3);
});

test("a file that was being saved when its server was killed is removed some time later", async () => {
  const folder = await makeFolder();
  const [old, young] = ["a", "b"].map((digit) => `.sluice-${digit.repeat(36)}.tmp`) as [
    string,
    string,
  ];
  for (const name of [old, young, "kept.txt"]) await writeFile(join(folder, name), "x");
  const longAgo = new Date(Date.now() - 2 * 3_600_000);
  await utimes(join(folder, old), longAgo, longAgo);
  await utimes(join(folder, "kept.txt"), longAgo, longAgo);
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint: "http://127.0.0.1:1/mcp",
    keys: "ephemeral",
    anonymous: true,
    onWarning: () => {},
  });
  const uploads = await createServedUploads(sluice, folder, 1_000);
  await uploads.close({ deadlineMs: 0 });
  expect((await readdir(folder)).toSorted()).toEqual([young, "kept.txt"].toSorted());
});
