import { definedMembers } from "@sluice/core/internal";
import { expect, test } from "vitest";

test("members of undefined are left out, and null, zero and empty text stay", () => {
  const members = definedMembers({ a: undefined, b: null, c: 0, d: "", e: false });
  expect(Object.keys(members)).toEqual(["b", "c", "d", "e"]);
});
