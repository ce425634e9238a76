import { expect, test } from "vitest";
import { Pace, paceText } from "../page/pace.ts";

/** After notes of bytes sent at milliseconds. */
function paceAfter(...notes: readonly (readonly [sent: number, at: number])[]): Pace {
  const pace = new Pace();
  for (const [sent, at] of notes) pace.note(sent, at);
  return pace;
}

test.each([
  [
    "is not told before a second has gone by",
    [
      [0, 0],
      [900, 900],
    ],
    undefined,
  ],
  [
    "is that of what was sent since the first note",
    [
      [0, 0],
      [1_000, 500],
      [4_000, 2_000],
    ],
    2_000,
  ],
  [
    "is that of the last seconds",
    [
      [0, 0],
      [100, 4_000],
      [100, 5_000],
      [8_100, 9_000],
    ],
    1_600,
  ],
  [
    "is not told while a file stands still",
    [
      [500, 0],
      [500, 3_000],
    ],
    undefined,
  ],
  [
    "begins anew when a file does",
    [
      [9_000, 0],
      [0, 1_000],
      [3_000, 2_500],
    ],
    2_000,
  ],
  [
    "begins anew after a sleep",
    [
      [0, 0],
      [1_000, 2_000],
      [2_000, 60_000],
    ],
    undefined,
  ],
] as const)("the pace of a file %s", (_, notes, bytesPerSecond) => {
  expect(paceAfter(...notes).bytesPerSecond).toBe(bytesPerSecond);
});

test.each([
  [2_000_000, "1 MB/s, 2 s left"],
  [99_500_000, "1 MB/s, 2 min left"],
  [3_000_000_000, "1 MB/s, 50 min left"],
  [20_000_000_000, "1 MB/s, 6 h left"],
])("%i bytes at a megabyte a second are %s", (bytesLeft, text) => {
  expect(paceText(paceAfter([0, 0], [1_000_000, 1_000]), bytesLeft)).toBe(text);
});

test("nothing is said of a pace that is not known", () => {
  expect(paceText(paceAfter([0, 0]), 1_000)).toBe("");
});
