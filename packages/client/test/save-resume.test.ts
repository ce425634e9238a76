import { createHash } from "node:crypto";
import {
  link, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, writeFile,
} from "node:fs/promises"; // prettier-ignore
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { formatReprDigest } from "@sluice/core/internal";
import { afterEach, beforeEach, expect, test } from "vitest";
import { saveResource, streamResource, type ResourceStream } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { thisProcess, type ResumeRecord } from "../src/save/resume-record.ts";
import { startFileServer, type ServedFile } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import type { RawServer } from "./raw-server.ts";

type Writer = ReturnType<typeof thisProcess>;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const content = Buffer.alloc(6_000_001, "The quick brown fox ");
// enough for a thread that hashes beside the transfer
const large = Buffer.alloc(9_000_001, "The quick brown fox ");
const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const sha256 = sha(content);

function open(
  server: RawServer,
  options: Parameters<typeof streamResource>[2] = {},
): Promise<ResourceStream> {
  return streamResource(createRawClient(server.url, withStreaming()), "x://a/b.bin", {
    timeouts: { pauseScale: 0 },
    ...options,
  });
}

/** Paths of the part file and the record that an interrupted save left in the folder. */
async function keptFiles(): Promise<{ readonly part: string; readonly record: string }> {
  const [part = "", record = ""] = (await readdir(directory))
    .toSorted((a, b) => a.length - b.length)
    .map((name) => join(directory, name));
  return { part, record };
}

/** Saves until some bytes are there, aborts, and gives what the folder holds then. */
async function interruptAt(server: RawServer, bytes: number, connections = 1): Promise<string[]> {
  const abort = new AbortController();
  const reason = new Error("enough for now");
  const stream = await open(server, { signal: abort.signal });
  const onProgress = ({ bytes: arrived }: { bytes: number }): void => {
    if (arrived >= bytes) abort.abort(reason);
  };
  const saving = stream.saveTo(directory, { resume: true, connections, onProgress });
  await expect(saving).rejects.toBe(reason);
  return readdir(directory);
}

test.each([1, 4])(
  "a save over %i connections that was interrupted goes on where it stopped",
  async (connections) => {
    const file: ServedFile = { content: large, pace: 2 ** 16 };
    await using server = await startFileServer(file);
    const left = await interruptAt(server, 6_000_000, connections);
    expect(left.every((name) => /^\.[0-9a-f]{32}\.kept(\.json)?$/.test(name))).toBe(true);
    expect(left).toHaveLength(2);
    const saved = await (await open(server)).saveTo(directory, { resume: true, connections });
    expect(saved.sha256).toBe(sha(large));
    expect(saved.resumedBytes).toBeGreaterThan(500_000);
    expect(await readdir(directory)).toEqual(["b.bin"]);
  },
);

/** Saves as {@link saveResource} does, with the ranges that its requests for bytes name. */
async function resave(
  server: RawServer,
  file: ServedFile,
  path: string,
  options: Parameters<typeof saveResource>[3] = {},
) {
  const ranges: (string | undefined)[] = [];
  file.before = (req) => {
    ranges.push(req.headers.range);
    return false;
  };
  const client = createRawClient(server.url, withStreaming());
  const terms = { resume: true, timeouts: { pauseScale: 0 }, ...options };
  return { saved: await saveResource(client, "x://a/b.bin", path, terms), ranges };
}

test.each<[string, (directory: string) => string, string[], Parameters<typeof resave>[3]?]>([
  ["a folder", (folder) => folder, ["bytes=4000000-"]],
  ["a folder and a name", (folder) => folder, ["bytes=4000000-"], { name: "b.bin" }],
  ["a file", (folder) => join(folder, "b.bin"), ["bytes=4000000-"]],
  ["a file with a digest", (folder) => folder, ["bytes=4000000-"], { requireDigest: true }],
])(
  "a save to %s that is resumed requests only what is missing, with its first request",
  async (_to, pathOf, ranges, options) => {
    const file: ServedFile = { content, digest: formatReprDigest(sha256) };
    await using server = await startFileServer(file);
    await interruptAt(server, 1);
    const { record, part } = await keptFiles();
    const kept = JSON.parse(await readFile(record, "utf8")) as ResumeRecord;
    await writeFile(part, content.subarray(0, 4_000_000));
    await writeFile(record, JSON.stringify({ ...kept, keptBytes: 4_000_000 }));
    const second = await resave(server, file, pathOf(directory), options);
    expect(second.ranges).toEqual(ranges);
    expect(second.saved).toMatchObject({ sha256, resumedBytes: 4_000_000, verified: "digest" });
    expect(await readdir(directory)).toEqual(["b.bin"]);
  },
);

test.each<[string, (file: ServedFile, kept: Awaited<ReturnType<typeof keptFiles>>) => unknown]>([
  ["is another version by now", (file) => (file.etag = '"v2"')],
  ["is shorter by now", (file) => Object.assign(file, { content: Buffer.from("s"), etag: '"v2"' })],
  ["has no tag any more", (file) => (file.etag = undefined)],
  ["comes without ranges", (file) => (file.ranges = false)],
  ["gets another name", (file) => (file.disposition = 'attachment; filename="c.bin"')],
  ["lost its part", (_file, { part }) => rm(part)],
  [
    "has an invalid tag in its record",
    (_file, { record, part }) =>
      writeFile(
        record,
        JSON.stringify({
          uri: "x://a/b.bin",
          etag: "v1\r\nx: y",
          size: content.length,
          part: basename(part),
          keptBytes: 9,
        }),
      ),
  ],
])("a resumed save of a resource that %s saves all of it", async (_what, change) => {
  for (const connections of [1, 2]) {
    const file: ServedFile = { content };
    await using server = await startFileServer(file);
    await interruptAt(server, 1);
    await change(file, await keptFiles());
    const { saved } = await resave(server, file, directory, { connections });
    expect(sha(await readFile(saved.path))).toBe(sha(file.content));
    await rm(saved.path);
    await rm(directory, { recursive: true });
    await mkdir(directory);
  }
});

test("a broken connection leaves the bytes for a later run, too", async () => {
  const file: ServedFile = { content, breakAfter: 4_000_000 };
  await using server = await startFileServer(file);
  const stream = await open(server);
  file.before = (_req, res) => {
    res.destroy();
    return true;
  };
  const saving = stream.saveTo(directory, { resume: true });
  await expect(saving).rejects.toMatchObject({ retryable: true });
  delete file.before;
  delete file.breakAfter;
  const saved = await (await open(server)).saveTo(directory, { resume: true });
  expect(saved.sha256).toBe(sha256);
  // nothing that had arrived is fetched again
  expect(saved.resumedBytes).toBe(4_000_000);
});

test(
  "kept bytes of another version, or that were touched, are not gone on from",
  { tags: "slow" },
  async () => {
    const otherPart = `.${"0123456789abcdef".repeat(2)}.kept`;
    const name = async (record: string, part: string): Promise<void> =>
      writeFile(record, JSON.stringify({ ...JSON.parse(await readFile(record, "utf8")), part }));
    type Sow = (kept: Awaited<ReturnType<typeof keptFiles>>, file: ServedFile) => unknown;
    const doubts: Record<string, Sow> = {
      "a new version": (_kept, file) =>
        void Object.assign(file, { content: Buffer.alloc(2_500_001, "n"), etag: '"v2"' }),
      "no tag any more": (_kept, file) => void (file.etag = undefined),
      "a record cut short": ({ record }) => truncate(record, 20),
      "an empty record": ({ record }) => truncate(record, 0),
      "no record": ({ record }) => rm(record),
      "a record of a part that is not there": ({ record }) => name(record, otherPart),
      "a part with another kind of name": async ({ part, record }) => {
        await rename(part, join(directory, "mine.bin"));
        await name(record, "mine.bin");
      },
      "a part elsewhere": async ({ part, record }) => {
        await mkdir(join(directory, "f"));
        await rename(part, join(directory, "f", otherPart));
        await name(record, `f/${otherPart}`);
      },
      "fewer bytes than recorded": ({ part }) => truncate(part, 1_000),
      "a link in its place": async ({ part }) => {
        await rm(part);
        await symlink("/etc/hostname", part);
      },
      "a second name": ({ part }) => link(part, `${part}.other`),
    };
    for (const [doubt, sow] of Object.entries(doubts)) {
      const file: ServedFile = { content: content.subarray(0, 2_500_001), etag: '"v1"' };
      await using server = await startFileServer(file);
      await interruptAt(server, 1_500_000);
      await sow(await keptFiles(), file);
      const saved = await (await open(server)).saveTo(directory, { resume: true });
      expect([doubt, saved.resumedBytes]).toEqual([doubt, 0]);
      expect(saved.sha256, doubt).toBe(sha(file.content));
      await rm(directory, { recursive: true });
      await mkdir(directory);
    }
  },
);

test("altered kept bytes never become a file where a digest is promised", async () => {
  const file: ServedFile = { content, digest: formatReprDigest(sha256) };
  await using server = await startFileServer(file);
  await interruptAt(server, 4_000_000);
  await writeFile((await keptFiles()).part, Buffer.alloc(3), { flag: "r+" });
  await expect((await open(server)).saveTo(directory, { resume: true })).rejects.toMatchObject({
    code: "corrupt",
  });
  expect(await readdir(directory)).toEqual([]);
  const saved = await (await open(server)).saveTo(directory, { resume: true });
  expect(saved.sha256).toBe(sha256);
});

test("a hidden file that was replaced is neither published nor deleted", async () => {
  await using server = await startFileServer({ content });
  for (const resume of [false, true]) {
    const stream = await open(server);
    let planted: string | undefined;
    const onProgress = ({ bytes }: { bytes: number }): void => {
      if (planted !== undefined || bytes < 3_000_000) return;
      planted = readdirSync(directory).find((name) => /^\.\w+\.(part|kept)$/.test(name));
      rmSync(join(directory, planted as string));
      writeFileSync(join(directory, planted as string), "planted");
    };
    const saving = stream.saveTo(directory, { resume, onProgress });
    await expect(saving).rejects.toMatchObject({ code: "corrupt" });
    expect(await readdir(directory)).toEqual([planted]);
    expect(await readFile(join(directory, planted as string), "utf8")).toBe("planted");
    await rm(join(directory, planted as string));
  }
});

test("a resumable save is recorded before the first byte, and lets go when it ends", async () => {
  await using server = await startFileServer({ content });
  const record = (): Partial<ResumeRecord> => {
    const name = readdirSync(directory).find((entry) => entry.endsWith(".json"));
    return JSON.parse(readFileSync(join(directory, name as string), "utf8"));
  };
  let first: Partial<ResumeRecord> | undefined;
  const stream = await open(server);
  const onProgress = (): void => void (first ??= record());
  await stream.saveTo(directory, { resume: true, onProgress });
  expect(first).toMatchObject({ keptBytes: 0, writer: { pid: process.pid } });
  expect(await readdir(directory)).toEqual(["b.bin"]);
  await interruptAt(server, 4_000_000);
  expect(record().writer).toBeUndefined();
  expect(record().part).not.toBe(first?.part);
});

test("a record that cannot be written keeps no save from beginning anew", async () => {
  const file: ServedFile = { content, breakAfter: 3_000_000 };
  await using server = await startFileServer(file);
  const other = Buffer.alloc(2_000_000, "B");
  let isPlanted = false;
  const onProgress = (): void => {
    if (isPlanted) return;
    isPlanted = true;
    const record = readdirSync(directory).find((name) => name.endsWith(".json")) as string;
    rmSync(join(directory, record));
    mkdirSync(join(directory, record));
    Object.assign(file, { content: other, etag: '"v2"', breakAfter: undefined });
  };
  const saved = await (await open(server)).saveTo(directory, { resume: true, onProgress });
  expect(saved.sha256).toBe(sha(other));
});

test.each<[whose: string, writer: (mine: Writer) => Partial<Writer>, resumes: boolean]>([
  ["this very process", () => ({}), false],
  ["another process that runs", () => ({ pid: process.ppid }), false],
  ["any process of another host", () => ({ host: "elsewhere", pid: 2 ** 22 + 1 }), false],
  [
    "an earlier process that had this id",
    ({ startedMs }) => ({ startedMs: startedMs - 5_000 }),
    true,
  ],
  ["a process that is over", () => ({ pid: 2 ** 22 + 1 }), true],
])("a file that %s wrote is resumed, or left alone", async (_whose, change, resumes) => {
  await using server = await startFileServer({ content });
  await interruptAt(server, 3_000_000);
  const { part, record } = await keptFiles();
  const writer = { ...thisProcess(), ...change(thisProcess()) };
  const claimed = JSON.stringify({ ...JSON.parse(await readFile(record, "utf8")), writer });
  await writeFile(record, claimed);
  const saved = await (await open(server)).saveTo(directory, { resume: true });
  expect([saved.sha256, saved.resumedBytes > 0]).toEqual([sha256, resumes]);
  const left = resumes ? [] : [basename(part), basename(record)];
  expect(new Set(await readdir(directory))).toEqual(new Set([...left, "b.bin"]));
  const said = await readFile(record, "utf8").catch(() => undefined);
  expect(said).toBe(resumes ? undefined : claimed);
});

test("ignores a record that is a pipe, a device or an endless file", async () => {
  const file: ServedFile = { content };
  await using server = await startFileServer(file);
  await interruptAt(server, 4_000_000);
  const { record } = await keptFiles();
  await rm(record);
  await symlink("/dev/zero", record);
  const saved = await (await open(server)).saveTo(directory, { resume: true });
  expect([saved.resumedBytes, saved.sha256]).toEqual([0, sha256]);
});

test.each([false, true])(
  "saves of the same resource at once share nothing, and one goes on with what was left: %s",
  async (left) => {
    await using server = await startFileServer({ content });
    if (left) await interruptAt(server, 3_000_000);
    const streams = await Promise.all(Array.from({ length: 4 }, () => open(server)));
    const saved = await Promise.all(
      streams.map((stream) => stream.saveTo(directory, { resume: true })),
    );
    expect(saved.map((file) => file.sha256)).toEqual(streams.map(() => sha256));
    expect(new Set(saved.map(({ path }) => path)).size).toBe(4);
    expect(saved.filter((file) => file.resumedBytes > 0)).toHaveLength(left ? 1 : 0);
    expect(await readdir(directory)).toHaveLength(4);
  },
);
