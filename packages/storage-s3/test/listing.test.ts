import type { StorageBackend } from "@sluice/storage";
import { createS3Backend } from "@sluice/storage-s3";
import { describe, expect, test } from "vitest";
import { createBucket } from "./bucket.ts";

const bytes = new Uint8Array(1);

async function keysOf(backend: StorageBackend, limit = 1000): Promise<string[]> {
  const keys: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await backend.list({ limit, ...(cursor !== undefined && { cursor }) });
    keys.push(...page.objects.map(({ key }) => key));
    ({ cursor } = page);
  } while (cursor !== undefined);
  return keys;
}

describe("a page", () => {
  test("may be empty without being the last: markers of folders take places", async () => {
    await using bucket = await createBucket();
    for (const name of ["a/", "b/", "c/", "c/file"]) bucket.standIn.put(name, bytes);
    const first = await bucket.backend.list({ limit: 2 });
    expect(first.objects).toEqual([]);
    expect(first.cursor).toBeDefined();
    expect(await keysOf(bucket.backend, 2)).toEqual(["c/file"]);
  });

  test("counts names that XML cannot hold, and has all others as they are", async () => {
    await using bucket = await createBucket();
    const keys = ["a b+c%20d", "e&f<g>\"h'", "ü/日本語.txt", "x=1?y#z"];
    for (const name of [...keys, "control\u0001", "a//b", "a/../b", "back\\slash", "folder/"])
      bucket.standIn.put(name, bytes);
    expect((await keysOf(bucket.backend)).toSorted()).toEqual(keys.toSorted());
    const { unlisted } = await bucket.backend.list();
    expect(unlisted).toEqual({ control: 1, segment: 2, backslash: 1 });
  });

  test("is not decoded if the server does not encode names", async () => {
    await using bucket = await createBucket({}, { deviations: ["ignores-url-encoding"] });
    for (const name of ["100%", "a%20b", "c+d"]) bucket.standIn.put(name, bytes);
    expect(await keysOf(bucket.backend)).toEqual(["100%", "a%20b", "c+d"]);
  });

  test("holds at most 1000 objects, whatever is asked for", async () => {
    await using bucket = await createBucket();
    await bucket.backend.list({ limit: 5000 });
    await bucket.backend.list({ limit: 7 });
    const asked = bucket.standIn.requests.map(({ url }) => /max-keys=(\d+)/.exec(url)?.[1]);
    expect(asked).toEqual(["1000", "7"]);
  });
});

describe("a prefix", () => {
  test("ends at a slash for the root: docs does not reach into docs-old", async () => {
    await using bucket = await createBucket({ prefix: "docs" });
    for (const name of ["docs/a", "docs-old/b", "docs", "docsc", "other/d"])
      bucket.standIn.put(name, bytes);
    expect(await keysOf(bucket.backend)).toEqual(["a"]);
    expect((await bucket.backend.list({ prefix: "-old" })).objects).toEqual([]);
    expect((await bucket.backend.list({ prefix: "../docs-old/" })).objects).toEqual([]);
  });

  test.each(["/docs", "docs//", "../docs", "a/./b", "a\\b", "/"])("%j is not a root", (prefix) => {
    expect(() => createS3Backend({ bucket: "b", prefix })).toThrow("s3: the prefix");
  });
});

describe("a cursor", () => {
  test("is only of its root and its prefix, and no server is asked about another", async () => {
    await using bucket = await createBucket();
    const { standIn, backend } = bucket;
    for (const name of ["a/1", "a/2", "a/3", "b/1"]) standIn.put(name, bytes);
    const { cursor = "" } = await backend.list({ prefix: "a/", limit: 1 });
    const { bucket: name, endpoint, credentials } = standIn;
    const other = createS3Backend({ bucket: name, endpoint, credentials, prefix: "a" });
    const before = standIn.requests.length;
    for (const work of [
      () => backend.list({ cursor }),
      () => backend.list({ cursor, prefix: "b/" }),
      () => other.list({ cursor, prefix: "a/" }),
      () => backend.list({ cursor: `${cursor}=`, prefix: "a/" }),
      () => backend.list({ cursor: cursor.toUpperCase(), prefix: "a/" }),
    ])
      await expect(work()).rejects.toMatchObject({ code: "invalid_argument" });
    expect(standIn.requests.length).toBe(before);
    expect((await backend.list({ cursor, prefix: "a/" })).objects[0]?.key).toBe("a/2");
    await other.close?.();
  });

  test("is invalid_argument when S3 no longer has it", async () => {
    await using bucket = await createBucket();
    for (const name of ["1", "2"]) bucket.standIn.put(name, bytes);
    const { cursor = "" } = await bucket.backend.list({ limit: 1 });
    bucket.standIn.faults.push({ status: 400, code: "InvalidArgument" });
    await expect(bucket.backend.list({ cursor })).rejects.toMatchObject({
      code: "invalid_argument",
    });
  });
});
