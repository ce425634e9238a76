import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, openAsBlob } from "node:fs";
import {
  appendFile,
  chmod,
  mkdir,
  mkdtemp,
  open,
  rename,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { blobSource } from "../src/upload/source/file-source.ts";
import { pathSource } from "../src/upload/source/path-source.ts";
import { startDigest } from "../src/upload/send/outgoing-file.ts";
import { send, senders } from "./sending.ts";
import { startScriptedServer } from "./scripted-server.ts";

const bytes = randomBytes(1.5 * 2 ** 20 + 5);
const isRoot = process.getuid?.() === 0;
if (isRoot) console.log("a file that may not be read: skipped, root may read every file");
let folder = "";
let path = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-uploads-"));
  path = join(folder, "report.pdf");
  await writeFile(path, bytes);
});
afterAll(() => rm(folder, { recursive: true }));

/** A new file with the same bytes. */
async function copy(name: string): Promise<string> {
  const made = join(folder, name);
  await writeFile(made, bytes);
  return made;
}

async function read(source: Awaited<ReturnType<typeof pathSource>>): Promise<Buffer> {
  const file = await source.open();
  try {
    const chunks: Buffer[] = [];
    // chunks are lent
    for await (const chunk of file.chunks(0, file.size)) chunks.push(Buffer.from(chunk));
    return Buffer.concat(chunks);
  } finally {
    await file.close();
  }
}

test("a file is described without being opened, and read byte for byte", async () => {
  const source = await pathSource({ path });
  expect(source).toMatchObject({
    name: "report.pdf",
    size: bytes.length,
    mimeType: "application/pdf",
  });
  expect((await read(source)).equals(bytes)).toBe(true);
  const named = await pathSource({ path, name: "other.bin", mimeType: "text/plain" });
  expect(named).toMatchObject({ name: "other.bin", mimeType: "text/plain" });
});

test("any stretch of a file is read byte for byte", async () => {
  const file = await (await pathSource({ path })).open();
  for (const [start, end] of [
    [0, 0],
    [0, 1],
    [7, 2 ** 18 + 7],
    [2 ** 18 - 1, bytes.length],
    [bytes.length - 1, bytes.length],
  ] as const) {
    const chunks: Buffer[] = [];
    for await (const chunk of file.chunks(start, end)) chunks.push(Buffer.from(chunk));
    expect(Buffer.concat(chunks).equals(bytes.subarray(start, end))).toBe(true);
  }
  await file.close();
});

test("the digest is that of the file, however often and in whatever pieces its bytes pass", async () => {
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  for (const steps of [
    [0, bytes.length],
    [0, 10, 5, 20, 20, 30, 0, 40],
    [0, 100_000, 99_999, 400_000],
    // passed over: read again at the end
    [50, 100, 200, 300],
    [],
  ]) {
    const file = await (await pathSource({ path })).open();
    const digest = await startDigest(file);
    for (let at = 0; at < steps.length; at += 2)
      digest.see(bytes.subarray(steps[at], steps[at + 1]), steps[at]!);
    expect(await digest.finish()).toBe(sha256);
    expect(await digest.finish()).toBe(sha256);
    await file.close();
  }
});

describe("only regular files are sent", () => {
  test("invalid files are refused at once, and nothing hangs", async () => {
    const link = join(folder, "link");
    await symlink(path, link);
    const pipe = join(folder, "pipe");
    spawnSync("mkfifo", [pipe]);
    await mkdir(join(folder, "sub"));
    for (const [what, code] of [
      [link, "invalid_argument"],
      [pipe, "invalid_argument"],
      [join(folder, "sub"), "invalid_argument"],
      ["/dev/null", "invalid_argument"],
      [join(folder, "nothing"), "not_found"],
      [join(path, "below-a-file"), "not_found"],
    ] as const) {
      const origin = code === "not_found" ? { origin: "disk" } : {};
      await expect(pathSource({ path: what }), what).rejects.toMatchObject({ code, ...origin });
    }
  });

  test.skipIf(isRoot)("a file that may not be read is refused", async () => {
    const closed = await copy("closed");
    await chmod(closed, 0);
    const source = await pathSource({ path: closed });
    await expect(source.open()).rejects.toMatchObject({
      code: "permission_denied",
      origin: "disk",
    });
  });

  test("a file that was replaced after it was picked is not opened, by whatever", async () => {
    const replacements: Record<string, (at: string) => Promise<void>> = {
      link: (at) => symlink(path, at),
      pipe: async (at) => void spawnSync("mkfifo", [at]),
      file: (at) => writeFile(at, bytes),
    };
    for (const [what, replace] of Object.entries(replacements)) {
      const picked = await copy(`picked-${what}`);
      const source = await pathSource({ path: picked });
      await rename(picked, `${picked}-before`);
      await replace(picked);
      await expect(source.open(), what).rejects.toMatchObject({
        code: expect.stringMatching(/^(?:precondition_failed|invalid_argument)$/),
      });
    }
  });
});

describe("a file that changes while it is sent is refused, and the server forgets it", () => {
  const changes: Record<string, (at: string) => Promise<void>> = {
    grows: (at) => appendFile(at, "more"),
    shrinks: (at) => truncate(at, 2 ** 20),
    "is rewritten": async (at) => {
      await writeFile(at, randomBytes(bytes.length));
    },
    "is written to in place": async (at) => {
      const file = await open(at, "r+");
      await file.write("x", 2 ** 20);
      await file.close();
    },
    "is rewritten and dated back": async (at) => {
      await writeFile(at, randomBytes(bytes.length));
      await utimes(at, new Date(1e12), new Date(1e12));
    },
  };
  test.each(Object.entries(changes))("it %s", async (what, change) => {
    const changing = await copy(`changing-${what.replaceAll(" ", "-")}`);
    await utimes(changing, new Date(1e12), new Date(1e12));
    const source = await pathSource({ path: changing });
    let changed = false;
    await using server = await startScriptedServer((req, _res, { uploads }) => {
      const held = uploads.get(req.url ?? "");
      if (req.method !== "PATCH" || !held || changed) return false;
      changed = true;
      // after some of it was read
      req.pause();
      void change(changing).then(() => req.resume());
      return false;
    });
    await expect(send(server.origin, [source])).rejects.toMatchObject({
      code: "precondition_failed",
      message: expect.stringContaining("changed"),
    });
    expect(server.seen.at(-1)?.method).toBe("DELETE");
    expect(server.uploads.size).toBe(0);
  });

  test("negative control: one that does not change arrives", async () => {
    const source = await pathSource({ path });
    await using server = await startScriptedServer();
    await send(server.origin, [source]);
    const [held] = server.uploads.values();
    expect(held?.bytes.equals(bytes)).toBe(true);
  });
});

test("a blob that cannot be read any more is a file that changed", async () => {
  const blob = new Blob([bytes]);
  const gone = Object.assign(Object.create(Blob.prototype), {
    slice: () => ({ arrayBuffer: () => Promise.reject(new DOMException("", "NotReadableError")) }),
  }) as Blob;
  Object.defineProperty(gone, "size", { value: blob.size });
  await using server = await startScriptedServer();
  await expect(
    send(server.origin, [
      blobSource(gone, { name: "a", mimeType: "text/plain", isTypeGuessed: false }),
    ]),
  ).rejects.toMatchObject({
    code: "precondition_failed",
  });
});

test.each(Object.entries(senders))(
  "a file of a browser that changes while it is sent is told from a lost connection, over %s",
  async (_name, sender) => {
    const changing = join(folder, "report.bin");
    for (const size of [1_000, 2 ** 20 + 17]) {
      await writeFile(changing, Buffer.alloc(size, 1));
      await using server = await startScriptedServer((req) => {
        if (req.method === "HEAD") return false;
        const isLarge = size > 2 ** 20;
        if (isLarge !== (req.method === "PATCH")) return false;
        appendFileSync(changing, "more");
        req.socket.destroy();
        return true;
      });
      const facts = { name: "report.bin", mimeType: "text/plain", isTypeGuessed: false };
      const source = blobSource(await openAsBlob(changing), facts);
      await expect(send(server.origin, [source], { sender })).rejects.toMatchObject({
        code: "precondition_failed",
      });
      const methods = server.seen.map(({ method }) => method);
      expect(methods.filter((method) => method === "PATCH").length).toBeLessThan(2);
    }
  },
);
