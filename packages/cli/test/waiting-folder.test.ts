import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";
import { openServedUploads, createLookout, makeWaitingFolder } from "../src/serve/serve-uploads.ts";

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-waiting-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test("files of a killed process are removed in time, and files in use stay", async () => {
  const folder = await makeFolder();
  const [first, second] = [await makeWaitingFolder(folder), await makeWaitingFolder(folder)];
  const looks = [first, second].map(({ path }) => createLookout(path));
  // another process may have had our number and the name of our machine
  const left = `${first.path.slice(0, -6)}killed`;
  await mkdir(join(left, "uploads"), { recursive: true });
  await writeFile(join(left, "uploads", "bytes"), "another's");
  await mkdir(join(folder, ".sluice-uploads-mine"));
  const used = [first.path, second.path, join(folder, ".sluice-uploads-mine")];
  const names = (paths: readonly string[]) => paths.map((path) => basename(path)).toSorted();
  for (let round = 0; round < 10; round++) for (const look of looks) await look();
  expect((await readdir(folder)).toSorted()).toEqual(names([...used, left]));
  for (const look of looks) await look();
  expect((await readdir(folder)).toSorted()).toEqual(names(used));
  // the twin: one that shows nothing
  for (let round = 0; round < 11; round++) await looks[0]!();
  expect((await readdir(folder)).toSorted()).toEqual(names([used[0]!, used[2]!]));
  for (const waiting of [first, first, second]) await waiting.remove();
  expect(await readdir(folder)).toEqual([".sluice-uploads-mine"]);
});

test("a folder whose touch fails removes none, and comes to no harm", async () => {
  const folder = await makeFolder();
  const waiting = await makeWaitingFolder(folder);
  const look = createLookout(waiting.path);
  await waiting.remove();
  const other = await makeWaitingFolder(folder);
  for (let round = 0; round < 12; round++) await look();
  expect(await readdir(folder)).toEqual([basename(other.path)]);
  await other.remove();
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
  const uploads = await openServedUploads(sluice, folder, { maxBytes: 1_000 });
  await uploads.close({ deadlineMs: 0 });
  // a call that is under way may still save what waits
  const waiting = expect.stringMatching(/^\.sluice-uploads-/);
  expect(await readdir(folder)).toContainEqual(waiting);
  await uploads.remove();
  expect((await readdir(folder)).toSorted()).toEqual([young, "kept.txt"].toSorted());
});
