import { describe, expect, test } from "vitest";
import { canonicalKey, type DriveItem, etagOf, toObjectInfo } from "../src/lib/drive-item.ts";

function at(path: string | undefined, name: string, driveId = "b!main"): DriveItem {
  return { name, parentReference: { driveId, ...(path !== undefined && { path }) } };
}

describe("the key of an answer", () => {
  test.each([
    [
      "G15: another case is the same object, by its stored name",
      "A/b.TXT",
      at("/drives/b!main/root:/a", "B.txt"),
      "a/B.txt",
    ],
    [
      "paths may be percent-encoded",
      "ä b/c.txt",
      at("/drive/root:/%C3%A4%20b", "c.txt"),
      "ä b/c.txt",
    ],
    ["paths may be plain", "100% x/c.txt", at("/drive/root:/100% x", "c.txt"), "100% x/c.txt"],
    [
      "a name that looks encoded is one",
      "%2e%2e/c.txt",
      at("/drive/root:/%2e%2e", "c.txt"),
      "%2e%2e/c.txt",
    ],
    [
      "the root of the backend may lie anywhere",
      "b/c.txt",
      at("/drive/root:/x/y/b", "c.txt"),
      "b/c.txt",
    ],
    ["at the top no path is needed", "c.txt", at(undefined, "c.txt"), "c.txt"],
    [
      "composed and decomposed letters are one name",
      "caf\u00e9.txt",
      at(undefined, "cafe\u0301.txt"),
      "cafe\u0301.txt",
    ],
    [
      "a service that decodes twice opens another file",
      "test%46.txt",
      at(undefined, "testF.txt"),
      undefined,
    ],
    ["… or another folder", "%2e%2e/x.txt", at("/drive/root:", "x.txt"), undefined],
    ["a service that drops dots opens another file", "a.txt", at(undefined, "a"), undefined],
    [
      "G17: another drive is not this one",
      "a.txt",
      at("/drive/root:", "a.txt", "b!other"),
      undefined,
    ],
    ["without a path a folder cannot be vouched for", "a/b.txt", at(undefined, "b.txt"), undefined],
    ["G20: an item without a name is nobody's", "a.txt", { parentReference: {} }, undefined],
  ])("%s", (_, key, item, expected) => {
    expect(canonicalKey(item, key, "b!main")).toBe(expected);
  });

  test("ids of personal drives lose zeros and change their case", () => {
    const item = at("/drive/root:", "a.txt", "A1B2C3D4E5F6789");
    expect(canonicalKey(item, "a.txt", "0a1b2c3d4e5f6789")).toBe("a.txt");
    expect(canonicalKey(item, "a.txt", "0a1b2c3d4e5f6788")).toBe(undefined);
  });
});

test.each([
  [{ cTag: '"c:{1},2"', eTag: '"{1},3"' }, "c:{1},2"],
  [{ eTag: '"{1},3"' }, "{1},3"],
  [{ cTag: "aYzo1" }, "aYzo1"],
  [{ cTag: 'W/"1"' }, undefined],
  [{ cTag: "W/1" }, undefined],
  [{ cTag: '"a b"' }, undefined],
  [{ cTag: '"half' }, undefined],
  [{}, undefined],
])("the etag of %j is %j", (item, etag) => {
  expect(etagOf(item)).toBe(etag);
});

test("G27: quickXor is a digest in base64, whatever other hashes there are", () => {
  const hashes = { quickXorHash: "SgAAAAAAAAAAAAAAAQAAAAAAAAA=", sha1Hash: "AB", crc32Hash: "CD" };
  expect(toObjectInfo("a", { file: { hashes } })).toEqual({
    key: "a",
    digests: { quickXor: "SgAAAAAAAAAAAAAAAQAAAAAAAAA=" },
  });
  expect(toObjectInfo("a", { file: {}, lastModifiedDateTime: "soon" })).toEqual({ key: "a" });
});
