import { expect, test } from "vitest";
import { crc32, portableCrc32 } from "../src/formats/zip-archive.ts";

test("the CRC is that of ISO 3309, in one part or in several, native or portable", () => {
  const bytes = new TextEncoder().encode("123456789");
  for (const compute of [crc32, portableCrc32]) {
    expect(compute(bytes, 0)).toBe(0xcbf43926);
    expect(compute(bytes.subarray(4), compute(bytes.subarray(0, 4), 0))).toBe(0xcbf43926);
    expect(compute(new Uint8Array(0), 0)).toBe(0);
  }
});
