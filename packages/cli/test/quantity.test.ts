import { expect, test } from "vitest";
import { formatBytes, formatDuration, parseBytes } from "../src/terminal/quantity.ts";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [98_932_688, "94.3 MiB"],
  [1024 ** 2 - 1, "1.0 MiB"],
  [120 * 1024 ** 2, "120 MiB"],
  [1024 ** 3 * 8, "8.0 GiB"],
  [1024 ** 6, "1024 PiB"],
])("%i bytes are %s", (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test("a size takes at most eight columns up to a pebibyte, so that columns stay aligned", () => {
  for (let bytes = 1; bytes < 1024 ** 5; bytes = Math.ceil(bytes * 1.003))
    expect(formatBytes(bytes).length).toBeLessThanOrEqual(8);
});

test.each([
  [0, "0.0 s"],
  [9_949, "9.9 s"],
  [9_950, "10 s"],
  [59_400, "59 s"],
  [59_500, "1:00"],
  [187_000, "3:07"],
  [7_209_000, "2:00:09"],
])("%i ms are %s", (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  ["1048576", 1_048_576],
  ["10k", 10_240],
  ["1.5M", 1_572_864],
  ["2GiB", 2 * 1024 ** 3],
  ["2 gb", 2 * 1024 ** 3],
  ["7B", 7],
])("%s is a size of %i bytes", (text, bytes) => {
  expect(parseBytes(text)).toBe(bytes);
});

test.each(["", "0", "-1", "1e9", "0x10", "10 q", "M", "9999999P", "1,5M"])(
  "%j is not a size",
  (text) => {
    expect(parseBytes(text)).toBeUndefined();
  },
);
