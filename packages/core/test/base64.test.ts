import { expect, test, vi } from "vitest";
import {
  decodeBase64,
  decodeBase64Url,
  encodeBase64,
  encodeBase64Url,
} from "../src/bytes/base64.ts";

test("any bytes are written as the runtime writes them, and come back", () => {
  for (let length = 0; length < 200; length++) {
    const bytes = crypto.getRandomValues(new Uint8Array(length));
    const expected = Buffer.from(bytes);
    expect(encodeBase64(bytes)).toBe(expected.toString("base64"));
    expect(encodeBase64Url(bytes)).toBe(expected.toString("base64url"));
    expect(decodeBase64(encodeBase64(bytes))).toEqual(bytes);
    expect(decodeBase64(encodeBase64(bytes).replaceAll("=", ""))).toEqual(bytes);
    expect(decodeBase64Url(encodeBase64Url(bytes))).toEqual(bytes);
  }
});

test("base64 and base64url are the same where the runtime has no Buffer, for any number of bytes", () => {
  for (const length of [0, 1, 2, 3, 0x8000, 0x8001, 100_000]) {
    const bytes = Uint8Array.from({ length: length + 1 }, (_, n) => n * 7 + (n >> 8)).subarray(1);
    const expected = [encodeBase64(bytes), encodeBase64Url(bytes)];
    vi.stubGlobal("Buffer", undefined);
    try {
      expect(encodeBase64(bytes) === expected[0]).toBe(true);
      expect(encodeBase64Url(bytes) === expected[1]).toBe(true);
    } finally {
      vi.unstubAllGlobals();
    }
  }
});

test("base64url has one spelling", () => {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const pairs = Array.from(digits, (digit) => `A${digit}`);
  expect(pairs.filter((text) => decodeBase64Url(text)).length).toBe(4);
  expect(pairs.filter((text) => decodeBase64Url(`A${text}`)).length).toBe(16);
  for (const text of ["A", "AAAAA", "AA==", "AA=", "A+", "A/", " AA", "AA\n", "é", "A\u0100"])
    expect(decodeBase64Url(text)).toBeUndefined();
});

test("base64 has its alphabet, and padding only where it belongs", () => {
  expect(decodeBase64("AA")).toEqual(new Uint8Array(1));
  expect(decodeBase64("AB==")).toEqual(new Uint8Array(1));
  expect(decodeBase64("")).toEqual(new Uint8Array(0));
  for (const text of [
    "A",
    "A===",
    "AA=",
    "AAA==",
    "AAAA=",
    "=",
    "==",
    "A-",
    "A_",
    " AA",
    "AA==\n",
    "A=A=",
  ])
    expect(decodeBase64(text)).toBeUndefined();
});
