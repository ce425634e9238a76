// @module-tag slow
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ArchiveEntry } from "../src/entries/read-entries.ts";
import { writeZip } from "../src/formats/zip-archive.ts";
import { type ArchiveFormat, archiveOf } from "../src/index.ts";
import { createFileSet, openedOf, zeros } from "./file-set.ts";
import { findPeers, type Peer } from "./peers.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("skipped: archives above 4 GiB (SLUICE_DEEP)");

const peers = findPeers();
let work: string;
beforeAll(async () => void (work = await mkdtemp(join(tmpdir(), "sluice-archive-large-"))));
afterAll(() => rm(work, { recursive: true, force: true }));

const hole = Buffer.alloc(256 * 1024);

/** Writes chunks into a file that has holes where they are zeros. */
async function saveSparse(name: string, chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const path = join(work, name);
  const file = await open(path, "w");
  let size = 0;
  for await (const chunk of chunks) {
    if (!hole.subarray(0, chunk.byteLength).equals(chunk))
      await file.write(chunk, 0, chunk.byteLength, size);
    size += chunk.byteLength;
  }
  await file.truncate(size);
  await file.close();
  return path;
}

async function expectSizes(
  format: ArchiveFormat,
  archive: string,
  expected: readonly (readonly [path: string, size: number])[],
  readers: readonly Peer[] = peers,
): Promise<void> {
  for (const peer of readers.filter((each) => each.format === format)) {
    const sizes = await peer.sizes(archive);
    expect([peer.name, ...expected.map(([path]) => [path, sizes.get(path)])]).toEqual([
      peer.name,
      ...expected,
    ]);
  }
}

test("more than 65,535 files are read by each peer", async () => {
  const count = 65_537;
  const entries = (async function* (): AsyncGenerator<ArchiveEntry> {
    const chunks = { [Symbol.asyncIterator]: async function* () {} };
    for (let index = 0; index < count; index++)
      yield { path: `${index}`, size: 0, modified: undefined, chunks };
  })();
  const chunks: Uint8Array[] = [];
  for await (const chunk of writeZip(entries)) chunks.push(chunk);
  const archive = join(work, "many.zip");
  await writeFile(archive, Buffer.concat(chunks));
  const readers = peers.filter(({ format }) => format === "zip");
  const counts = readers.map(async (peer) => (await peer.sizes(archive, "listing")).size);
  expect(await Promise.all(counts)).toEqual(readers.map(() => count));
});

const gib = 2 ** 30;

/** A file of zeros that ends with another byte. */
const marked = (size: number, mark: number) => ({
  size,
  read(start: number, end: number) {
    const bytes = new Uint8Array(end - start);
    if (end === size) bytes[bytes.length - 1] = mark;
    return bytes;
  },
});

/** The same, from a storage that does not tell its size. */
const unsized = (size: number, mark: number) => async () =>
  openedOf(
    "",
    undefined,
    (function* () {
      const content = marked(size, mark);
      for (let start = 0; start < size; start += hole.length)
        yield content.read(start, Math.min(size, start + hole.length));
    })(),
  );

test.runIf(isDeep)(
  "files above 4 GiB, and what comes behind them, are read by each peer",
  async () => {
    const contents = {
      "told.bin": marked(4.5 * gib, 1),
      "untold.bin": unsized(4.2 * gib - ((4.2 * gib) % 1), 2),
      "behind.txt": "behind all of it",
      "untold.txt": unsized(3, 3),
    };
    const archive = await saveSparse(
      "large.zip",
      archiveOf(createFileSet(contents).files, { format: "zip" }),
    );
    await expectSizes("zip", archive, [
      ["told.bin", 4.5 * gib],
      ["untold.bin", Math.floor(4.2 * gib)],
      ["behind.txt", 16],
      ["untold.txt", 3],
    ]);
  },
);

test.runIf(isDeep)("sizes and offsets around 4 GiB are read by each peer", async () => {
  for (const size of [4 * gib - 2, 4 * gib - 1, 4 * gib]) {
    const { files } = createFileSet({ first: marked(size, 1), second: "x" });
    const archive = await saveSparse(`${size}.zip`, archiveOf(files, { format: "zip" }));
    // UnZip 6.0 takes this one size for the mark of a 64-bit field, wherever it stands
    const readers = peers.filter(({ name }) => size !== 4 * gib - 1 || !name.includes("unzip"));
    const expected = [["first", size] as const, ["second", 1] as const];
    await expectSizes("zip", archive, expected, readers);
    await rm(archive);
  }
});

test.runIf(isDeep)(
  "tar: a file above 8 GiB, and what comes behind it, are read by each peer",
  async () => {
    const contents = { "large.bin": marked(8 * gib + 5, 1), "z.txt": "behind" };
    const archive = await saveSparse(
      "large.tar",
      archiveOf(createFileSet(contents).files, { format: "tar" }),
    );
    await expectSizes("tar", archive, [
      ["large.bin", 8 * gib + 5],
      ["z.txt", 6],
    ]);
  },
);

for (const format of ["zip", "tar"] as const)
  test.runIf(isDeep)(`${format}: 200,000 files are read by each peer`, async () => {
    const count = 200_000;
    const contents = (function* () {
      for (let index = 0; index < count; index++)
        yield [`folder-${index % 100}/${index}`, zeros(0)] as const;
    })();
    const { files } = createFileSet(contents);
    const archive = await saveSparse(
      `many-deep.${format}`,
      archiveOf(files, { format, maxFiles: count }),
    );
    for (const peer of peers.filter((each) => each.format === format))
      expect([peer.name, (await peer.sizes(archive)).size]).toEqual([peer.name, count]);
  });
