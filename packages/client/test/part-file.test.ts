import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, open, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createPartFile, partFileOf, type PartFile } from "../src/save/part-file.ts";

async function writtenPart(
  content: Uint8Array,
  order: readonly number[],
): Promise<AsyncDisposable & { readonly part: PartFile }> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-part-"));
  const part = await createPartFile(directory);
  await write(part, content, order);
  return {
    part,
    async [Symbol.asyncDispose]() {
      await part.discard();
      await rm(directory, { recursive: true });
    },
  };
}

/** Writes the quarters of the content in an order; memory that is given back is overwritten. */
async function write(part: PartFile, content: Uint8Array, order: readonly number[]): Promise<void> {
  const quarter = content.length / 4;
  const buffer = part.writeBuffer(1);
  for (const index of order) {
    const chunk = Buffer.from(content.subarray(index * quarter, (index + 1) * quarter));
    await buffer.write(chunk, index * quarter, () => chunk.fill(0));
    await part.flush();
  }
}

test("a restart drops what was collected and not yet written, and gives its memory back", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-part-"));
  const part = await createPartFile(directory);
  try {
    let givenBack = 0;
    const old = part.writeBuffer(1_000);
    void old.write(Buffer.from("old version"), 0, () => givenBack++);
    await part.restart();
    expect(givenBack).toBe(1);

    void part.writeBuffer(1_000).write(Buffer.from("new"), 0);
    await part.flush();
    expect(await readFile(part.path, "utf8")).toBe("new");
    expect(part.gapless()).toBe(3);
  } finally {
    await part.discard();
    await rm(directory, { recursive: true });
  }
});

test.for([[[0, 1, 2, 3]], [[0, 2, 1, 3]], [[3, 2, 1, 0]]] as const)(
  "the digest of a small file is that of its bytes, written in the order %j",
  async ([order]) => {
    const content = randomBytes(400_000);
    await using written = await writtenPart(content, order);
    const sha256 = createHash("sha256").update(content).digest("hex");
    expect(await written.part.finish()).toEqual({ size: content.length, sha256 });
  },
);

test("the digest of a file that an earlier run began covers the bytes that are kept", async () => {
  const content = randomBytes(400_000);
  await using written = await writtenPart(content, [0, 1]);
  const { path } = written.part;
  const part = partFileOf(await open(path, "r+"), path, 200_000);
  await write(part, content, [2, 3]);
  const sha256 = createHash("sha256").update(content).digest("hex");
  expect(await part.finish()).toEqual({ size: content.length, sha256 });
  await part.close();
});

test.for([
  ["shorter", (path: string) => truncate(path, 399_999), "the file has 399999"],
  ["longer", (path: string) => truncate(path, 400_001), "the file has 400001"],
  ["another", (path: string) => replace(path), "was replaced or deleted"],
  ["gone", (path: string) => rm(path), "was replaced or deleted"],
] as const)("a small part file that another program made %s is not finished", async (row) => {
  const [, damage, message] = row;
  await using written = await writtenPart(randomBytes(400_000), [0, 1, 2, 3]);
  await damage(written.part.path);
  await expect(written.part.finish()).rejects.toMatchObject({
    code: "corrupt",
    message: expect.stringContaining(message),
  });
});

async function replace(path: string): Promise<void> {
  await writeFile(`${path}.other`, randomBytes(400_000));
  await rename(`${path}.other`, path);
}
