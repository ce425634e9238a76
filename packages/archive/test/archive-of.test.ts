import { SluiceError } from "@sluice/core";
import { expect, test } from "vitest";
import { archiveOf, type ArchiveFormat } from "../src/index.ts";
import {
  bytesOf,
  createFileSet,
  type FileContent,
  type FileSet,
  openedOf,
  zeros,
} from "./file-set.ts";

const formats: readonly ArchiveFormat[] = ["zip", "tar"];
const eight = new TextEncoder().encode("8 bytes.");
const brokenPart = (): AsyncIterable<Uint8Array> =>
  (async function* () {
    yield eight;
    throw new SluiceError("interrupted", "the disk broke");
  })();

/** Ways in which an archive cannot be whole, each in the middle of it. */
const faults: Readonly<Record<string, { content: FileContent; code: string }>> = {
  "a file breaks": { content: async () => openedOf("b", 16, brokenPart()), code: "interrupted" },
  "a file ends early": { content: async () => openedOf("b", 9, [eight]), code: "interrupted" },
  "a file is longer than told": { content: async () => openedOf("b", 7, [eight]), code: "corrupt" },
  "a file is empty and told otherwise": {
    content: async () => openedOf("b", 1, []),
    code: "interrupted",
  },
  "a file may not be opened": {
    content: () => Promise.reject(new SluiceError("permission_denied", "no")),
    code: "permission_denied",
  },
  "the storage is away": {
    content: () => Promise.reject(new SluiceError("unavailable", "down")),
    code: "unavailable",
  },
};

/** How an archive ended, for the check that its twin must fail. */
async function endOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  try {
    await bytesOf(stream);
    return "clean";
  } catch (error) {
    return SluiceError.is(error) ? error.code : String(error);
  }
}

/** Passes on what comes before an error, and ends as if all had come. */
function lenient(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return ReadableStream.from(
    (async function* () {
      const reader = stream.getReader();
      for (;;) {
        const step = await reader.read().catch(() => ({ value: undefined }));
        if (step.value === undefined) return;
        yield step.value;
      }
    })(),
  );
}

/** A moment that a test decides. */
function createGate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** The two ways in which an archive is ended from outside. */
const endings = {
  async abort(reader: Reader, ending: AbortController, reason: Error) {
    ending.abort(reason);
    await expect(reader.read()).rejects.toBe(reason);
  },
  cancel: (reader: Reader, _ending: AbortController, reason: Error) => reader.cancel(reason),
};

const whole = { a: "first", z: "last" };

for (const format of formats) {
  for (const [fault, { content, code }] of Object.entries(faults))
    test(`${format}: an archive errors where ${fault}`, async () => {
      const set = createFileSet({ a: "first", b: content, z: "last" });
      expect(await endOf(archiveOf(set.files, { format }))).toBe(code);
      expect([set.open, set.isOver]).toEqual([0, true]);
      const twin = createFileSet({ a: "first", b: content, z: "last" });
      expect(await endOf(lenient(archiveOf(twin.files, { format })))).not.toBe(code);
    });

  test(`${format}: an archive errors where its listing fails, after whole files too`, async () => {
    for (const failing of [0, 1, 2]) {
      const set = createFileSet(whole, (index) => {
        if (index === failing) throw new SluiceError("throttled", "later");
      });
      expect(await endOf(archiveOf(set.files, { format }))).toBe("throttled");
      expect([set.open, set.isOver]).toEqual([0, true]);
    }
  });

  test(`${format}: a file that is gone is left out, and keeps no name`, async () => {
    const gone: FileContent[] = [
      async () => undefined,
      () => Promise.reject(new SluiceError("not_found", "removed")),
    ];
    for (const content of gone) {
      const one = archiveOf(
        createFileSet([
          ["a", content],
          ["a", "x"],
        ]).files,
        { format },
      );
      const other = archiveOf(createFileSet([["a", "x"]]).files, { format });
      expect((await bytesOf(one)).byteLength).toBe((await bytesOf(other)).byteLength);
    }
  });

  test(`${format}: the first bytes leave before the second file is listed`, async () => {
    const second = createGate();
    const set = createFileSet(whole, (index) => (index === 1 ? second.opened : undefined));
    const reader = archiveOf(set.files, { format }).getReader();
    const { value } = await reader.read();
    expect(value?.byteLength).toBeGreaterThan(0);
    expect(set.listed).toBe(1);
    second.open();
    while (!(await reader.read()).done);
    expect(set.listed).toBe(2);
  });

  test(`${format}: nothing is read before a reader asks, and little ahead of it`, async () => {
    const aheadOf = async (
      through: (stream: ReadableStream<Uint8Array>) => ReadableStream<Uint8Array>,
    ): Promise<number> => {
      const set = createFileSet({ a: zeros(64 * 2 ** 20), b: zeros(64 * 2 ** 20) });
      const reader = through(archiveOf(set.files, { format })).getReader();
      await new Promise(setImmediate);
      const atFirst = set.read + set.listed;
      let taken = 0;
      while (taken < 16 * 2 ** 20) taken += (await reader.read()).value!.byteLength;
      const ahead = set.read - taken;
      expect([set.listed, set.mostOpen]).toEqual([1, 1]);
      await reader.cancel();
      await expect.poll(() => [set.open, set.isOver]).toEqual([0, true]);
      return atFirst + ahead;
    };
    const few = 2 * 256 * 1024;
    expect(await aheadOf((stream) => stream)).toBeLessThanOrEqual(few);
    const eager = new TransformStream<Uint8Array, Uint8Array>({}, { highWaterMark: 32 });
    expect(await aheadOf((stream) => stream.pipeThrough(eager))).toBeGreaterThan(few);
  });

  test(`${format}: one file is open at a time`, async () => {
    const names = Array.from({ length: 50 }, (_, index) => `file ${index}`);
    const set = createFileSet(names.map((name) => [name, "text"] as const));
    await bytesOf(archiveOf(set.files, { format }));
    expect([set.listed, set.mostOpen, set.open, set.isOver]).toEqual([50, 1, 0, true]);
  });

  for (const way of ["abort", "cancel"] as const)
    test(`${format}: ${way} after any chunk closes the open file and the listing`, async () => {
      const contents = { a: "one", b: zeros(600_000), c: "", "d/e": zeros(1000) };
      const reason = new Error("enough");
      for (let stop = 0; ; stop++) {
        const set = createFileSet(contents);
        const ending = new AbortController();
        const reader = archiveOf(set.files, { format, signal: ending.signal }).getReader();
        let isDone = false;
        for (let step = 0; step < stop && !isDone; step++) isDone = (await reader.read()).done;
        if (isDone) break;
        await endings[way](reader, ending, reason);
        await expect.poll(() => set.open).toBe(0);
        // before the first read there is no listing to end
        await expect.poll(() => stop === 0 || set.isOver).toBe(true);
      }
    });

  for (const [moment, isLate] of [
    ["a page is awaited", (set: FileSet) => set.listed === 0],
    ["a file is opened", (set: FileSet) => set.listed === 1],
  ] as const)
    test(`${format}: an abort ends the archive at once while ${moment}`, async () => {
      const page = createGate();
      const opening = createGate();
      const contents: Record<string, FileContent> = {
        a: async () => {
          await opening.opened;
          return openedOf("a", 8, [eight]);
        },
      };
      const set = createFileSet(contents, () =>
        moment === "a page is awaited" ? page.opened : undefined,
      );
      const ending = new AbortController();
      const reading = archiveOf(set.files, { format, signal: ending.signal }).getReader().read();
      await expect.poll(() => isLate(set)).toBe(true);
      const reason = new Error("enough");
      ending.abort(reason);
      await expect(reading).rejects.toBe(reason);
      // a file that opens later is closed
      page.open();
      opening.open();
      await expect.poll(() => [set.open, set.isOver]).toEqual([0, true]);
    });

  test(`${format}: one file more than maxFiles is too_large, as many are not`, async () => {
    const endWith = (maxFiles: number): Promise<string> =>
      endOf(archiveOf(createFileSet(whole).files, { format, maxFiles }));
    expect([await endWith(2), await endWith(1)]).toEqual(["clean", "too_large"]);
  });

  test(`${format}: the opened version tells size and time, not the listing`, async () => {
    const lastModified = new Date("2021-02-03T04:05:06Z");
    const files = (async function* () {
      yield {
        key: "a",
        size: 3,
        lastModified: new Date(0),
        open: async () => ({
          ...openedOf("a", 8, [eight]),
          info: { key: "a", size: 8, lastModified },
        }),
      };
    })();
    const bytes = Buffer.from(await bytesOf(archiveOf(files, { format })));
    expect(bytes.includes("8 bytes.")).toBe(true);
    const seconds = lastModified.getTime() / 1000;
    const asWritten = {
      tar: Buffer.from(seconds.toString(8)),
      zip: Buffer.from(Uint32Array.of(seconds).buffer),
    };
    expect(bytes.includes(asWritten[format])).toBe(true);
  });
}

test("zip: a file of unknown size that breaks is also an error", async () => {
  const set = createFileSet({ a: async () => openedOf("a", undefined, brokenPart()) });
  expect(await endOf(archiveOf(set.files, { format: "zip" }))).toBe("interrupted");
});

test("tar is refused where the size of a file is not known, and ZIP is not", async () => {
  const files = (): FileSet => createFileSet({ a: async () => openedOf("a", undefined, [eight]) });
  expect(await endOf(archiveOf(files().files, { format: "tar" }))).toBe("unsupported");
  expect(await endOf(archiveOf(files().files, { format: "zip" }))).toBe("clean");
});

test("bytes that lie in memory are copied: their reader owns what it gets", async () => {
  const shared = eight.slice();
  const files = (async function* () {
    yield { key: "a", open: async () => ({ ...openedOf("a", 8, []), bytes: shared }) };
  })();
  for await (const chunk of archiveOf(files, { format: "zip" })) chunk.fill(0);
  expect(shared).toEqual(eight);
});

test("an unknown format or a prefix that is not a folder is a programming mistake", () => {
  const { files } = createFileSet({});
  expect(() => archiveOf(files, { format: "rar" as "zip" })).toThrow(TypeError);
  expect(() => archiveOf(files, { format: "zip", prefix: "a" })).toThrow(TypeError);
});
