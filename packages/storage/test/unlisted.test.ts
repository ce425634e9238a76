import { formatUnlisted, readUnlisted, withValidation } from "@sluice/storage/internal";
import { checkKey, unlistedReason, UnlistedTally } from "@sluice/storage/plugin";
import { expect, test } from "vitest";
import { createScripted } from "./scripted-backend.ts";

test.each([
  ["a\tb", "control"],
  ["a\nb", "control"],
  ["a\u0085b", "control"],
  ["a\\b", "backslash"],
  ["a\ud800b", "notUtf8"],
  ["ü".repeat(513), "tooLong"],
  ["", "segment"],
  ["/a", "segment"],
  ["a//b", "segment"],
  ["a/", "segment"],
  ["a/./b", "segment"],
  ["../b", "segment"],
  ["a/...", undefined],
  ["..a/b", undefined],
  ["ü".repeat(512), undefined],
])("%j cannot be a key because of: %s", (name, reason) => {
  expect(unlistedReason(name)).toBe(reason);
  expect(checkKey(name) === undefined).toBe(reason === undefined);
});

test("a tally sums up, leaves out markers of folders, and begins anew", () => {
  const tally = new UnlistedTally();
  for (const name of ["a.txt", "a/", "", "a//b", "x\ty"]) tally.addName(name);
  tally.add("link");
  tally.add(undefined);
  tally.addAll({ link: 2 });
  tally.addAll(undefined);
  expect(tally.take()).toEqual({ segment: 1, control: 1, link: 3 });
  expect(tally.take()).toBeUndefined();
});

test("counts are words in the singular and the plural", () => {
  expect(formatUnlisted({ link: 1 })).toBe("1 not listed: 1 symbolic link");
  expect(formatUnlisted({ link: 2, backslash: 1 })).toBe(
    "3 not listed: 2 symbolic links, 1 name with a backslash",
  );
});

test.each([
  [{ link: 2, other: 3 }, { link: 2 }],
  [{ link: 0 }, undefined],
  [{ link: -1, backslash: 1.5, control: "2", special: 1e99 }, undefined],
  [{ "\u001b[2J": 1, constructor: 1, __proto__: { link: 1 } }, undefined],
  [null, undefined],
  ["link", undefined],
  [[1], undefined],
])("counts from elsewhere, %j, are taken as far as they are known", (value, expected) => {
  expect(readUnlisted(value)).toEqual(expected);
});

test("objects that a backend lists under an illegal key are counted by protect", async () => {
  const page = {
    objects: [{ key: "a//b" }, { key: "a.txt" }, { key: "folder/" }],
    unlisted: { link: 1 },
  };
  const { backend } = createScripted(() => ({ list: () => async () => page }));
  expect(await withValidation(backend).list()).toEqual({
    objects: [{ key: "a.txt" }],
    unlisted: { link: 1, segment: 1 },
  });
});
