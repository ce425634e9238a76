import { statSync } from "node:fs";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { createFsBackend } from "@sluice/storage-fs";
import { expect, test } from "vitest";
import { toSluiceError } from "../src/root/fs-error.ts";
import { isHidden, isWindowsTrap, temporaryName } from "../src/root/names.ts";
import { toObjectInfo } from "../src/read/opened-object.ts";
import { createTemporaryTree } from "./temporary-tree.ts";

test("names that Windows takes for devices, streams and other names are a trap", () => {
  const traps = [
    "CON",
    "nul",
    "aux.txt",
    "a/COM1",
    "com¹.log",
    "LPT9 .x",
    "a.",
    "a ",
    "a:b",
    "file.txt::$DATA",
    "C:x",
    "a?",
    "a*b",
    'a"b',
    "a|b",
  ];
  expect(traps.filter((key) => !isWindowsTrap(key))).toEqual([]);
  const names = [
    "console",
    "nul1",
    "a.con",
    "com",
    "com10",
    "lpt",
    "a b",
    "a.b",
    ".a",
    "auxiliary/x",
  ];
  expect(names.filter(isWindowsTrap)).toEqual([]);
});

test("a name is hidden by any of its segments, and an upload in progress always", () => {
  expect([".a", "a/.b", "a/.b/c"].every((key) => isHidden(key, false))).toBe(true);
  expect(["a", "a.b", "a/b."].some((key) => isHidden(key, false))).toBe(false);
  expect(isHidden(".a", true)).toBe(false);
  expect(isHidden(`a/${temporaryName()}`, true)).toBe(true);
});

test("a system error tells its cause by code, and no path", () => {
  const codes = {
    ENOENT: "not_found",
    EACCES: "permission_denied",
    ELOOP: "permission_denied",
    ENAMETOOLONG: "invalid_argument",
    ENOSPC: "no_space",
    EDQUOT: "no_space",
    EFBIG: "too_large",
    EMFILE: "unavailable",
    EIO: "unavailable",
    ESTALE: "unavailable",
    EBUSY: "unavailable",
  };
  for (const [code, expected] of Object.entries(codes)) {
    const cause = Object.assign(new Error(`${code}: open '/srv/data/x'`), { code });
    const error = toSluiceError(cause, 'fs: open "x"');
    expect(error).toMatchObject({
      code: expected,
      cause,
      message: expect.stringMatching(new RegExp(`^fs: open "x": [a-z ,-]+ \\(${code}\\)$`)),
    });
    expect(toSluiceError(error, "again")).toBe(error);
  }
  expect(toSluiceError(new Error("what"), "fs").code).toBe("unavailable");
});

/** How creating the backend fails. */
function codeOf(root: string): unknown {
  try {
    return createFsBackend({ root });
  } catch (error) {
    return SluiceError.is(error) ? error.code : error;
  }
}

test("a root that cannot be served is reported when the backend is created", async () => {
  await using tree = await createTemporaryTree();
  await tree.put("file", "x");
  expect(codeOf(join(tree.root, "nothing"))).toBe("not_found");
  expect(() => createFsBackend({ root: join(tree.root, "nothing") })).toThrow(/; make the folder/);
  expect(codeOf(join(tree.root, "file"))).toBe("unsupported");
});

test("a size that a number cannot hold exactly is too_large", () => {
  const stats = statSync(import.meta.filename, { bigint: true });
  const sized = (size: bigint) => () => toObjectInfo("key", Object.assign(stats, { size }), 0);
  expect(sized(2n ** 53n - 1n)().size).toBe(Number.MAX_SAFE_INTEGER);
  expect(sized(2n ** 53n)).toThrow(expect.objectContaining({ code: "too_large" }));
});
