import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, createReadStream, read } from "node:fs";
import {
  appendFile,
  mkdir,
  open,
  rename,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { createFsBackend } from "@sluice/storage-fs";
import { describe, expect, test, vi } from "vitest";
import { createTemporaryTree, racyMs, readAll } from "./temporary-tree.ts";

const readAt = promisify(read);
const mebibyte = 1024 * 1024;
const changed = { code: "precondition_failed" };

describe("anything but a regular file", () => {
  test.skipIf(process.platform === "win32")("is refused at once, never waited for", async () => {
    await using tree = await createTemporaryTree();
    const at = (name: string): string => join(tree.root, name);
    await mkdir(at("folder"));
    execFileSync("mkfifo", [at("pipe")]);
    const server = createServer().listen(at("socket"));
    await new Promise((resolve) => server.once("listening", resolve));
    try {
      const backend = createFsBackend({ root: tree.root });
      // more than there are threads: had one of them waited for a writer, all would
      const keys = ["folder", "socket", ...Array.from({ length: 8 }, () => "pipe")];
      for (const call of ["describe", "open"] as const)
        await Promise.all(
          keys.map((key) =>
            expect(backend[call](key)).rejects.toMatchObject({ code: "unsupported" }),
          ),
        );
      expect((await backend.list()).objects).toEqual([]);
      expect(tree.countOpen().files).toBe(0);
    } finally {
      server.close();
    }
  });

  test.runIf(process.platform === "linux")("is refused even as a device", async () => {
    const backend = createFsBackend({ root: "/dev" });
    for (const key of ["null", "zero", "urandom", "tty"])
      await expect(backend.open(key)).rejects.toMatchObject({
        code: /unsupported|permission_denied/,
      });
  });

  test.runIf(process.platform === "linux")(
    "is refused when its size is a lie, as in /proc",
    async () => {
      const backend = createFsBackend({ root: "/proc/self" });
      await expect(backend.open("status")).rejects.toMatchObject({ code: "unsupported" });
      await expect(backend.open("net/dev")).rejects.toMatchObject({ code: "unsupported" });
    },
  );

  test("is not found below a file", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "x");
    const backend = createFsBackend({ root: tree.root });
    await expect(backend.open("file/below")).rejects.toMatchObject({ code: "not_found" });
    await expect(backend.open("n".repeat(300))).rejects.toMatchObject({ code: "invalid_argument" });
  });
});

describe("a file that changes while it is read", () => {
  test("and grows gives no byte beyond the size that was promised", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("log", "a".repeat(mebibyte));
    const strict = createFsBackend({ root: tree.root });
    const reader = (await strict.open("log")).body.getReader();
    let received = (await reader.read()).value?.byteLength ?? 0;
    await appendFile(join(tree.root, "log"), "b".repeat(mebibyte));
    await expect(
      (async () => {
        for (let step = await reader.read(); !step.done; step = await reader.read())
          received += step.value.byteLength;
      })(),
    ).rejects.toMatchObject(changed);
    expect(received).toBeLessThan(mebibyte);
  });

  test("and is a log gives what was there when it was opened", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("logs/a.log", "a".repeat(mebibyte));
    const backend = createFsBackend({ root: tree.root, appendOnly: (key) => key.endsWith(".log") });
    const { body, info } = await backend.open("logs/a.log");
    await appendFile(join(tree.root, "logs/a.log"), "more");
    expect((await readAll(body)).byteLength).toBe(info.size);
    const opened = await backend.open("logs/a.log");
    await truncate(join(tree.root, "logs/a.log"), 10);
    await expect(readAll(opened.body)).rejects.toMatchObject(changed);
  });

  test("and is a log has no version that a later call could miss", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("a.log", "first");
    await tree.put("b.txt", "first");
    const backend = createFsBackend({ root: tree.root, appendOnly: (key) => key.endsWith(".log") });
    await backend.describe("b.txt");
    const { objects } = await backend.list();
    expect(new Map(objects.map(({ key, etag }) => [key, typeof etag]))).toEqual(
      new Map([
        ["a.log", "undefined"],
        ["b.txt", "string"],
      ]),
    );
    expect((await backend.describe("a.log")).etag).toBeUndefined();
    expect((await backend.open("a.log")).info.etag).toBeUndefined();
  });

  test("and is truncated is an error and never a short success", async () => {
    await using tree = await createTemporaryTree();
    for (const size of [0, 1, mebibyte - 1]) {
      await tree.put("short", "a".repeat(mebibyte));
      const { body } = await createFsBackend({ root: tree.root }).open("short");
      await truncate(join(tree.root, "short"), size);
      await expect(readAll(body)).rejects.toMatchObject(changed);
    }
    expect(tree.countOpen().files).toBe(0);
  });

  test("and is truncated would be a short success for a plain stream of Node.js", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("short", "a".repeat(mebibyte));
    const stream = createReadStream(join(tree.root, "short"), { end: mebibyte - 1 });
    await once(stream, "open");
    await truncate(join(tree.root, "short"), 10);
    let received = 0;
    for await (const chunk of stream) received += (chunk as Buffer).byteLength;
    expect(received).toBeLessThan(mebibyte);
  });

  test("and is overwritten in place withholds its last chunk", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("mixed", "a".repeat(mebibyte));
    const { body } = await createFsBackend({ root: tree.root }).open("mixed");
    const file = await open(join(tree.root, "mixed"), "r+");
    await file.write("b", mebibyte / 2);
    await file.close();
    await expect(readAll(body)).rejects.toMatchObject(changed);
  });

  test("and is replaced by rename or removed gives its old bytes whole", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("deployed", "a".repeat(mebibyte));
    const backend = createFsBackend({ root: tree.root });
    const { body } = await backend.open("deployed");
    await tree.put("next", "b".repeat(mebibyte));
    await rename(join(tree.root, "next"), join(tree.root, "deployed"));
    expect((await readAll(body)).equals(Buffer.alloc(mebibyte, "a"))).toBe(true);
    expect(
      (await readAll((await backend.open("deployed")).body)).equals(Buffer.alloc(mebibyte, "b")),
    ).toBe(true);
  });

  test("and is replaced again and again is never missing", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("folder/busy", "v");
    await symlink("folder", join(tree.root, "way"));
    const backend = createFsBackend({ root: tree.root, racyMs });
    const done = new AbortController();
    const replace = async (): Promise<void> => {
      for (let n = 0; !done.signal.aborted; n++) {
        await writeFile(join(tree.root, ".next"), `v${n}`);
        await rename(join(tree.root, ".next"), join(tree.root, "folder/busy"));
      }
    };
    const replacing = replace();
    for (let n = 0; n < 500; n++) {
      const [direct, around] = await Promise.all([
        backend.describe("folder/busy"),
        backend.describe("way/busy"),
      ]);
      expect([direct.key, around.key]).toEqual(["folder/busy", "folder/busy"]);
    }
    done.abort();
    await replacing;
  });

  test("and fails to read is interrupted", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("broken", "a".repeat(mebibyte));
    const { body, file } = await createFsBackend({ root: tree.root }).open("broken");
    closeSync(file?.fd ?? -1);
    await expect(readAll(body)).rejects.toMatchObject({ code: "interrupted" });
  });
});

describe("offsets", () => {
  test("beyond 2^31 and 2^32 are exact, in a file that is mostly a hole", async () => {
    await using tree = await createTemporaryTree();
    const size = 2 ** 33 + 11;
    await tree.put("sparse", "");
    const file = await open(join(tree.root, "sparse"), "r+");
    await file.truncate(size);
    for (const at of [2 ** 31 - 1, 2 ** 32 - 1, 2 ** 32 + 5, size - 3]) await file.write("xyz", at);
    await file.close();
    await wait(racyMs);
    const backend = createFsBackend({ root: tree.root });
    expect((await backend.describe("sparse")).size).toBe(size);
    for (const start of [2 ** 31 - 1, 2 ** 32 - 1, 2 ** 32 + 5, size - 3]) {
      const { body, range } = await backend.open("sparse", { range: { start, end: start + 3 } });
      expect(range).toEqual({ start, end: start + 3 });
      expect((await readAll(body)).toString()).toBe("xyz");
    }
    await expect(backend.open("sparse", { range: { start: size } })).rejects.toMatchObject({
      code: "range_not_satisfiable",
      size,
    });
  });
});

describe("the two faces", () => {
  test("read nothing and make no stream before they are used", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "content");
    const opened = await createFsBackend({ root: tree.root }).open("file");
    expect(Object.getOwnPropertyDescriptor(opened, "body")).not.toHaveProperty("value");
    await opened.file?.close();
    expect(tree.countOpen().files).toBe(0);
  });

  test("share a descriptor that is closed once, whichever is let go of first", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "a".repeat(mebibyte));
    const backend = createFsBackend({ root: tree.root });
    const closings: ((opened: Awaited<ReturnType<typeof backend.open>>) => Promise<unknown>)[] = [
      ({ body }) => readAll(body),
      ({ body }) => body.cancel(),
      async ({ body }) => {
        for await (const chunk of body) if (chunk.byteLength > 0) break;
      },
      async ({ body, file }) => Promise.all([body.cancel(), file?.close(), file?.close()]),
      async ({ body, file }) => {
        const reader = body.getReader();
        // closed during the read: it waits for it
        return Promise.all([reader.read().catch(() => {}), file?.close()]);
      },
    ];
    for (const close of closings) {
      await close(await backend.open("file"));
      expect(tree.countOpen().files).toBe(0);
    }
  });

  test("keep the descriptor of a taken file through an abort and a cancel", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "content");
    const caller = new AbortController();
    const { body, file } = await createFsBackend({ root: tree.root }).open("file", {
      signal: caller.signal,
    });
    const fd = file?.fd ?? -1;
    void body;
    caller.abort();
    await body.cancel().catch(() => {});
    const buffer = Buffer.alloc(7);
    await readAt(fd, buffer, 0, 7, 0);
    expect(buffer.toString()).toBe("content");
    await file?.close();
    expect(() => file?.fd).toThrow(TypeError);
    await expect(file?.verify()).rejects.toThrow(TypeError);
    expect(tree.countOpen().files).toBe(0);
  });

  test("leave nothing open after failures to open", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "content");
    const backend = createFsBackend({ root: tree.root });
    const reason = new Error("enough");
    const caller = new AbortController();
    const opening = backend.open("file", { signal: caller.signal });
    caller.abort(reason);
    await expect(opening).rejects.toBe(reason);
    await expect(backend.open("file", { ifMatch: "other" })).rejects.toMatchObject(changed);
    await expect(backend.open("file", { range: { start: 7 } })).rejects.toThrow("beyond the end");
    expect(tree.countOpen().files).toBe(0);
  });
});

describe("etags", () => {
  test("change with every change, even of equal length and with the old time put back", async () => {
    await using tree = await createTemporaryTree();
    const backend = createFsBackend({ root: tree.root, racyMs });
    const path = join(tree.root, "file");
    const time = new Date("2020-01-01");
    const etags = new Set<string | undefined>();
    for (const content of ["aaaa", "bbbb", "cccc"]) {
      await writeFile(path, content);
      await utimes(path, time, time);
      await wait(racyMs + 2);
      etags.add((await backend.describe("file")).etag);
    }
    expect(etags.size).toBe(3);
    expect(etags).not.toContain(undefined);
  });

  test("are left out while another change could have the same time", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "content");
    expect(
      (await createFsBackend({ root: tree.root, racyMs: 3_600_000 }).describe("file")).etag,
    ).toBeUndefined();
    expect((await createFsBackend({ root: tree.root, racyMs }).describe("file")).etag).toMatch(
      /^[\w-]{27}$/,
    );
  });

  test("are there where a timer ends a little early by the clock", async () => {
    await using tree = await createTemporaryTree();
    await writeFile(join(tree.root, "file"), "young");
    const { mtimeMs } = await stat(join(tree.root, "file"));
    const ages = [1, racyMs - 1, racyMs];
    using clock = vi.spyOn(Date, "now");
    clock.mockImplementation(() => Math.floor(mtimeMs) + (ages.shift() ?? racyMs));
    const { etag } = await createFsBackend({ root: tree.root, racyMs }).describe("file");
    expect(etag).toEqual(expect.any(String));
  });

  test("are there for a file whose time lies in the future", async () => {
    await using tree = await createTemporaryTree();
    await tree.put("file", "content");
    await utimes(join(tree.root, "file"), new Date("2100-01-01"), new Date("2100-01-01"));
    await wait(racyMs + 2);
    expect(
      (await createFsBackend({ root: tree.root, racyMs }).describe("file")).etag,
    ).toBeDefined();
  });
});
