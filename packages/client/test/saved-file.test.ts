import { readdirSync, statSync } from "node:fs";
import {
  chmod, lstat, mkdtemp, readdir, rm, stat, symlink, writeFile,
} from "node:fs/promises"; // prettier-ignore
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { streamResource, type ResourceStream } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { startFileServer, type ServedFile } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import type { RawServer } from "./raw-server.ts";

let directory: string;
const umask = process.umask(0o022);
process.umask(umask);
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
});
afterEach(async () => {
  process.umask(umask);
  await rm(directory, { recursive: true, force: true });
});

const content = Buffer.alloc(6_000_001, "The quick brown fox ");

function open(server: RawServer, signal?: AbortSignal): Promise<ResourceStream> {
  const options = { timeouts: { pauseScale: 0 }, ...(signal && { signal }) };
  return streamResource(createRawClient(server.url, withStreaming()), "x://a/b.bin", options);
}

async function modeOf(path: string): Promise<number> {
  return (await lstat(path)).mode & 0o777;
}

/** Permissions of everything hidden in the folder. */
function hiddenModes(): number[] {
  return readdirSync(directory)
    .filter((name) => name.startsWith("."))
    .flatMap((name) => statSync(join(directory, name), { throwIfNoEntry: false }) ?? [])
    .map(({ mode }) => mode & 0o777);
}

test.each([0o022, 0o077, 0o002, 0o000])(
  "a saved file has the permissions that open(2) gives by umask %o, and is private before",
  async (mask) => {
    process.umask(mask);
    await writeFile(join(directory, "by open(2)"), "");
    const expected = await modeOf(join(directory, "by open(2)"));
    expect(expected).toBe(0o666 & ~mask);
    await using server = await startFileServer({ content, pace: 2 ** 16 });
    for (const connections of [1, 4])
      for (const resume of [false, true]) {
        const seen = new Set<number>();
        const onProgress = (): void => hiddenModes().forEach((mode) => seen.add(mode));
        const { path } = await (
          await open(server)
        ).saveTo(directory, { connections, resume, onProgress });
        expect(await modeOf(path)).toBe(expected);
        expect([...seen]).toEqual([0o600]);
      }
  },
);

test("a partial file is private, and gets its permissions when it is finished", async () => {
  process.umask(0o002);
  await using server = await startFileServer({ content });
  const abort = new AbortController();
  const saving = (await open(server, abort.signal)).saveTo(directory, {
    resume: true,
    onProgress({ bytes }) {
      if (bytes > 3_000_000) abort.abort(new Error("enough for now"));
    },
  });
  await expect(saving).rejects.toThrow("enough for now");
  expect(hiddenModes()).toEqual([0o600, 0o600]);
  const saved = await (await open(server)).saveTo(directory, { resume: true });
  expect(saved.resumedBytes).toBeGreaterThan(500_000);
  expect(await modeOf(saved.path)).toBe(0o664);
});

test("a file that is replaced keeps its permissions, and a link does not pass on those of its target", async () => {
  process.umask(0o022);
  await using server = await startFileServer({ content });
  const path = join(directory, "mine");
  await writeFile(path, "secret", { mode: 0o600 });
  await (await open(server)).saveTo(path, { overwrite: true });
  expect(await modeOf(path)).toBe(0o600);
  await writeFile(join(directory, "open to all"), "");
  await chmod(join(directory, "open to all"), 0o777);
  await symlink("open to all", join(directory, "link"));
  await (await open(server)).saveTo(join(directory, "link"), { overwrite: true });
  expect(await modeOf(join(directory, "link"))).toBe(0o644);
});

const changed = "Sun, 09 Sep 2001 01:46:40 GMT";

test.each(["direct", "redirect", "downloadUrl"] as const)(
  "the time of the last change is the file's, over %s",
  async (delivery) => {
    await using server = await startFileServer({ content, delivery, modified: changed });
    const { path } = await (await open(server)).saveTo(directory);
    expect((await stat(path)).mtimeMs).toBe(1e12);
  },
);

test("the time of the last change is the file's, in parallel and when a save is gone on with", async () => {
  const file: ServedFile = {
    content,
    modified: changed,
    breakAfter: 4_000_000,
    pace: 2 ** 16,
  };
  await using server = await startFileServer(file);
  const stream = await open(server);
  file.before = (_req, res) => {
    res.destroy();
    return true;
  };
  await expect(stream.saveTo(directory, { resume: true })).rejects.toMatchObject({
    retryable: true,
  });
  delete file.before;
  delete file.breakAfter;
  for (const options of [{ resume: true }, { connections: 4 }]) {
    const { path } = await (await open(server)).saveTo(directory, options);
    expect((await stat(path)).mtimeMs).toBe(1e12);
  }
});

test.each([
  undefined, "", "yesterday", "1000000000", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 31 Dec 2099 23:59:59 GMT",
  "Mon, 01 Jan 0001 00:00:00 GMT", "Sun, 09 Sep 99999 01:46:40 GMT", `${changed}, ${changed}`,
])("an invalid or future time leaves the time of the save: %s", async (modified) => {
  await using server = await startFileServer({ content: Buffer.from("new"), modified });
  const { path } = await (await open(server)).saveTo(directory);
  expect(Math.abs((await stat(path)).mtimeMs - Date.now())).toBeLessThan(3_600_000);
}); // prettier-ignore

test(
  "an old time never makes a save look like what a crashed run left",
  { tags: "slow" },
  async () => {
    await using server = await startFileServer({ content: Buffer.from("old"), modified: changed });
    const saves = Array.from({ length: 40 }, async () => (await open(server)).saveTo(directory));
    await Promise.all(saves);
    expect(await readdir(directory)).toHaveLength(40);
  },
);
