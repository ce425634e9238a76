import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { constants, readdirSync, statSync } from "node:fs";
import {
  mkdtemp,
  open as openFile,
  readdir,
  rm,
  stat,
  writeFile,
  type FileHandle,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { streamResource, type ResourceStream, type TransferCount } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { diskError } from "../src/save/disk-error.ts";
import { createPartFile, partFileOf, type PartFile } from "../src/save/part-file.ts";
import { readRecord, ResumeKeeper } from "../src/save/resume-record.ts";
import { startFileServer } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import { startRawServer, type RawServer } from "./raw-server.ts";

const uri = "x://a/b.bin";
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function open(server: RawServer): Promise<ResourceStream> {
  const timeouts = { pauseScale: 0 };
  return streamResource(createRawClient(server.url, withStreaming()), uri, { timeouts });
}

/** A file system of a few megabytes, where this process may mount one. */
async function mountTiny(megabytes = 4): Promise<(AsyncDisposable & { path: string }) | undefined> {
  const path = await mkdtemp(join(tmpdir(), "sluice-tiny-"));
  try {
    const options = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", path];
    execFileSync("mount", options, { stdio: "ignore" });
  } catch {
    await rm(path, { recursive: true });
    return undefined;
  }
  return {
    path,
    async [Symbol.asyncDispose]() {
      execFileSync("umount", ["-l", path], { stdio: "ignore" });
      await rm(path, { recursive: true });
    },
  };
}

test("a disk that fills up on the way is no_space, and everything written is given back", async (context) => {
  await using disk = await mountTiny();
  if (!disk) {
    context.skip("this process may not mount a small file system");
    return;
  }
  const bytes = Buffer.alloc(8_000_000, "x");
  await using server = await startRawServer({
    stream(request, res) {
      // no length: the client cannot know beforehand that it does not fit
      res.writeHead(200, { etag: '"v1"', "mcp-resource-uri": request.params.uri }).end(bytes);
    },
  });
  for (const resume of [false, true]) {
    const stream = await streamResource(createRawClient(server.url, withStreaming()), uri);
    const saving = stream.saveTo(disk.path, { resume });
    await expect(saving).rejects.toMatchObject({
      code: "no_space",
      message: expect.stringContaining("make room"),
    });
    expect(await readdir(disk.path)).toEqual([]);
  }
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
});

test("a save has no bound but the room on its disk, a body has 1 GiB", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-room-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await using server = await startRawServer({
    stream(request, res) {
      const headers = { etag: '"v1"', "mcp-resource-uri": request.params.uri };
      res.writeHead(200, { ...headers, "content-length": 2 ** 52 }).write("x");
    },
  });
  const opened = await open(server);
  expect(opened.size).toBe(2 ** 52);
  expect(server.seen.at(-1)?.body).not.toContain("maxStreamSize");
  await expect(opened.body.getReader().read()).rejects.toMatchObject({ code: "too_large" });
  const saving = (await open(server)).saveTo(`${folder}/`);
  await expect(saving).rejects.toMatchObject({ code: "no_space", message: /do not fit/ });
  expect(await readdir(folder)).toEqual([]);
});

test.for<[string, number | undefined]>([
  ["whose size is not told", undefined],
  ["that is larger than it was told", 1_000],
])("a body without end %s leaves room on the disk", async ([, told], context) => {
  await using disk = await mountTiny(160);
  if (!disk) {
    context.skip("this process may not mount a small file system");
    return;
  }
  const chunk = Buffer.alloc(2 ** 20);
  let answers = 0;
  await using server = await startRawServer({
    stream(request, res) {
      const headers = { etag: `"v${answers}"`, "mcp-resource-uri": request.params.uri };
      answers += 1;
      // the first one breaks off, and another version comes in its place
      const isFirst = told !== undefined && answers === 1;
      res.writeHead(200, isFirst ? { ...headers, "content-length": told } : headers);
      const send = (): void =>
        void (res.write(chunk) ? setImmediate(send) : res.once("drain", send));
      if (isFirst) res.write("x", () => res.destroy());
      else send();
    },
  });
  let arrived = 0;
  const onProgress = ({ bytes }: TransferCount): void => void (arrived = Math.max(arrived, bytes));
  const saving = (await open(server)).saveTo(disk.path, { onProgress });
  await expect(saving).rejects.toMatchObject({ code: "no_space" });
  expect(arrived).toBeGreaterThan(60 * 2 ** 20);
  expect(arrived).toBeLessThan(80 * 2 ** 20);
  expect(await readdir(disk.path)).toEqual([]);
});

test("a write that the disk refuses reaches the next writer, once and by its cause", async () => {
  const part = partFileOf(await openFile("/dev/full", "r+"), "/dev/full", 0);
  const buffer = part.writeBuffer(2 ** 20);
  const block = Buffer.alloc(2 ** 20);
  const writing = async (): Promise<void> => {
    for (let at = 0; at < 64 * block.length; at += block.length) await buffer.write(block, at);
  };
  await expect(writing()).rejects.toMatchObject({ code: "no_space" });
  await expect(part.finish()).rejects.toMatchObject({ code: "no_space" });
  expect(part.gapless()).toBe(0);
  await part.close();
});

test.for([1, 4])(
  "a disk that fills while a save over %i connections runs keeps what is on it, and a later call goes on",
  async (connections, context) => {
    await using disk = await mountTiny(16);
    if (!disk) {
      context.skip("this process may not mount a small file system");
      return;
    }
    const content = Buffer.alloc(12_000_000, "0123456789");
    await using server = await startFileServer({ content, pace: 2 ** 16 });
    const filler = join(disk.path, "filler");
    let isFilled = false;
    const saving = (await open(server)).saveTo(disk.path, {
      resume: true,
      connections,
      onProgress() {
        const name = readdirSync(disk.path).find((entry) => entry.endsWith(".kept"));
        if (isFilled || statSync(join(disk.path, name as string)).blocks * 512 < 6_000_000) return;
        isFilled = true;
        // another program takes the last block
        execFileSync("sh", ["-c", `cat /dev/zero > ${filler} || true`], { stdio: "ignore" });
      },
    });
    await expect(saving).rejects.toMatchObject({
      code: "no_space",
      message: expect.stringMatching(/: \d+ bytes are kept, \d+ are missing; make room .*go on$/),
    });
    const [part, record, ...more] = (await readdir(disk.path))
      .filter((name) => name !== "filler")
      .toSorted((a, b) => a.length - b.length);
    expect(more).toEqual([]);
    const { keptBytes } = (await readRecord(join(disk.path, record as string)))!;
    expect(keptBytes).toBeGreaterThan(500_000);
    expect((await stat(join(disk.path, part as string))).size).toBe(keptBytes);
    expect((await stat(join(disk.path, part as string))).mode & 0o777).toBe(0o600);
    // while there is no room yet, nothing is lost and hardly anything fetched
    await expect((await open(server)).saveTo(disk.path, { resume: true })).rejects.toMatchObject({
      code: "no_space",
    });
    await rm(filler);
    const saved = await (await open(server)).saveTo(disk.path, { resume: true, connections });
    expect(saved.sha256).toBe(sha256(content));
    expect(saved.resumedBytes).toBeGreaterThan(500_000);
    expect(await readdir(disk.path)).toEqual(["b.bin"]);
  },
);

test("a small volume is filled up to its last blocks", { tags: "slow" }, async (context) => {
  await using disk = await mountTiny(8);
  if (!disk) {
    context.skip("this process may not mount a small file system");
    return;
  }
  // one block is for the record of a save that can be gone on with
  for (const [resume, spare] of [
    [false, 0],
    [true, 4_096],
  ] as const) {
    const content = Buffer.alloc(8 * 2 ** 20 - spare, "0123456789");
    await using server = await startFileServer({ content });
    const saved = await (await open(server)).saveTo(disk.path, { resume });
    expect([saved.size, saved.sha256]).toEqual([content.length, sha256(content)]);
    await rm(saved.path);
  }
  await using server = await startFileServer({ content: Buffer.alloc(8 * 2 ** 20 + 1) });
  await expect((await open(server)).saveTo(disk.path)).rejects.toMatchObject({
    code: "no_space",
    message: expect.stringContaining("1 are missing"),
  });
  expect(await readdir(disk.path)).toEqual([]);
});

test("a quota that is used up in the middle of a write keeps the bytes before it, also without room for the record", async () => {
  for (const code of ["ENOSPC", "EDQUOT"]) {
    const directory = await mkdtemp(join(tmpdir(), "sluice-full-"));
    const real = await createPartFile(directory, `.${"0".repeat(32)}.kept`);
    const handle = await openFile(real.path, constants.O_RDWR);
    const limited = limitTo(handle, 300_000, code);
    const part = partFileOf(limited, real.path, 0);
    const buffer = part.writeBuffer(65_536);
    const chunk = Buffer.alloc(65_536, "x");
    const filling = (async () => {
      for (let at = 0; ; at += chunk.length) await buffer.write(chunk, at);
    })();
    await expect(filling).rejects.toMatchObject({ code: "no_space" });
    expect(part.gapless()).toBe(300_000);
    const version = { uri, etag: '"v1"', size: 1_000_000 };
    const recordPath = join(directory, `.${"1".repeat(32)}.kept.json`);
    let refusals = 1;
    // the record finds no room before some of the bytes were cut off
    const tight: PartFile = {
      ...part,
      async sync() {
        if (refusals-- > 0) throw Object.assign(new Error(code), { code });
        await part.sync();
      },
    };
    expect(await new ResumeKeeper(tight, recordPath, () => version).keep()).toBe(true);
    const record = await readRecord(recordPath);
    expect(record).toMatchObject({ ...version, keptBytes: 300_000 - 65_536 });
    await part.close();
    await real.close();
    await rm(directory, { recursive: true });
  }
});

test("bytes that a failed sync may have lost are not kept", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-sync-"));
  const real = await createPartFile(directory);
  const handle = await openFile(real.path, constants.O_RDWR);
  let syncs = 0;
  const failing = new Proxy(handle, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name === "datasync")
        return async () => {
          if (++syncs === 2) throw Object.assign(new Error("quota"), { code: "EDQUOT" });
        };
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const part = partFileOf(failing, real.path, 0);
  const buffer = part.writeBuffer(1_000);
  await buffer.write(Buffer.alloc(1_000), 0);
  await part.flush();
  await part.sync();
  await buffer.write(Buffer.alloc(1_000), 1_000);
  await part.flush();
  await expect(part.sync()).rejects.toMatchObject({ code: "EDQUOT" });
  await part.cut(0);
  expect(part.gapless()).toBe(1_000);
  await part.close();
  await real.discard();
  await rm(directory, { recursive: true });
});

test.each([
  ["ENOSPC", "no_space", "make room"],
  ["EDQUOT", "no_space", "quota"],
  ["EFBIG", "too_large", "another file system"],
  ["EROFS", "permission_denied", "read-only"],
  ["EACCES", "permission_denied", "another folder"],
  ["EPERM", "permission_denied", "another folder"],
  ["ENAMETOOLONG", "invalid_argument", "shorter"],
  ["EINVAL", "invalid_argument", "another"],
  ["ENOTDIR", "invalid_argument", "another path"],
  ["ELOOP", "invalid_argument", "another path"],
  ["EISDIR", "already_exists", "another name"],
  ["ENOENT", "not_found", "create it"],
  ["EMFILE", "unavailable", "ulimit -n"],
  ["EIO", "internal", "another one"],
])("%s of the disk is %s, and says what helps", (code, ours, advice) => {
  const fault = diskError("save", Object.assign(new Error(code), { code }));
  const message: unknown = expect.stringContaining(advice);
  expect(fault).toMatchObject({ code: ours, message, origin: "disk" });
});

test("a name that the disk does not take is the caller's to change, and nothing is left", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-names-"));
  await using server = await startFileServer({ content: Buffer.from("content") });
  await writeFile(join(directory, "file"), "");
  for (const path of [join(directory, "x".repeat(256)), join(directory, "file", "below")])
    await expect((await open(server)).saveTo(path)).rejects.toMatchObject({
      code: "invalid_argument",
    });
  expect(await readdir(directory)).toEqual(["file"]);
  await rm(directory, { recursive: true });
});

/** A file that takes this many bytes and no more. */
function limitTo(handle: FileHandle, most: number, code: string): FileHandle {
  return new Proxy(handle, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name === "writev")
        return async (chunks: Uint8Array[], at: number) => {
          if (at >= most) throw Object.assign(new Error("full"), { code });
          return target.write(Buffer.concat(chunks).subarray(0, most - at), 0, undefined, at);
        };
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
