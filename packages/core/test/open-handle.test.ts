import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { completeHandle, openHandle } from "@sluice/core/internal/node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "sluice-handle-"))));
afterEach(() => rmSync(folder, { recursive: true }));

/** A handle over another one, as that of Yarn's Plug'n'Play: no emitter, and some methods throw at once. */
class ForeignHandle {
  readonly #native: FileHandle;

  constructor(native: FileHandle) {
    this.#native = native;
    for (const name of missing)
      Object.assign(this, {
        [name]() {
          throw new Error("Method not implemented.");
        },
      });
  }

  get fd(): number {
    return this.#native.fd;
  }

  close(): Promise<void> {
    return this.#native.close();
  }
}

const missing = ["sync", "datasync", "utimes", "readv", "writev"] as const;
type Missing = (typeof missing)[number];

/** What each of those methods does to a file with the text "0123456789", and what then has to be true. */
const uses: Record<Missing, (handle: FileHandle) => Promise<void>> = {
  sync: async (handle) => expect(await handle.sync()).toBeUndefined(),
  datasync: async (handle) => expect(await handle.datasync()).toBeUndefined(),
  async utimes(handle) {
    await handle.utimes(new Date(), new Date("2020-02-02T00:00:00Z"));
    expect(statSync(path()).mtime).toEqual(new Date("2020-02-02T00:00:00Z"));
  },
  async readv(handle) {
    const buffers = [Buffer.alloc(2), Buffer.alloc(3)];
    expect((await handle.readv(buffers, 4)).bytesRead).toBe(5);
    expect(buffers.map(String)).toEqual(["45", "678"]);
  },
  async writev(handle) {
    const { bytesWritten } = await handle.writev([Buffer.from("ab"), Buffer.from("cde")], 3);
    expect(bytesWritten).toBe(5);
    expect(textOf()).toBe("012abcde89");
    await handle.writev([Buffer.from("x"), Buffer.from("y")]);
    expect(textOf()).toBe("012abcde89xy");
  },
};

const path = (): string => join(folder, "file");
const textOf = (): string => readFileSync(path(), "utf8");

const expectUses = (name: Missing, handle: FileHandle): Promise<void> => uses[name](handle);

const makers: Record<string, () => Promise<FileHandle>> = {
  "of Node": () => openHandle(path(), "w+", 0o600),
  "of another implementation": async () =>
    completeHandle(new ForeignHandle(await open(path(), "w+")) as unknown as FileHandle),
};

describe.each(Object.entries(makers))("a handle %s", (_, make) => {
  test.each(missing)("has %s", async (name) => {
    const handle = await make();
    try {
      await handle.writev([Buffer.from("0123456789")]);
      await expectUses(name, handle);
    } finally {
      await handle.close();
    }
  });

  test("rejects and touches no other file once it is closed", async () => {
    const handle = await make();
    await handle.close();
    const next = await openHandle(join(folder, "other"), "w+");
    try {
      await expect(handle.writev([Buffer.from("late")])).rejects.toThrow(
        /closed|EBADF|out of range/,
      );
      expect((await next.stat()).size).toBe(0);
    } finally {
      await next.close();
    }
  });
});

test("a handle of Node stays as it is", async () => {
  const native = await open(folder);
  try {
    expect(Object.keys(completeHandle(native)).filter((name) => name in uses)).toEqual([]);
  } finally {
    await native.close();
  }
});
