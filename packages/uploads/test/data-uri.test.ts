import { expect, test } from "vitest";
import { parseDataUri } from "../src/files-sep-2631/open-input.ts";
import { formatDigest, parseDigest } from "../src/files-sep-2631/file-download.ts";

const text = (uri: string) => {
  const { mimeType, bytes } = parseDataUri(uri, 100);
  return [mimeType, new TextDecoder().decode(bytes)];
};

test("a data: URI is read in base64 and percent-encoded, as RFC 2397 has it", () => {
  expect(text("data:text/plain;base64,SGVsbG8gd29ybGQh")).toEqual(["text/plain", "Hello world!"]);
  expect(text("data:,A%20brief%20note")).toEqual(["text/plain", "A brief note"]);
  expect(text("data:;charset=utf-8,%C3%A4")).toEqual(["text/plain", "ä"]);
  expect(text("DATA:image/svg+xml;base64,PHN2Zy8+")).toEqual(["image/svg+xml", "<svg/>"]);
  expect(text("data:text/csv;charset=utf-8;base64,YQ==")).toEqual(["text/csv", "a"]);
  expect(text("data:application/octet-stream;base64,")).toEqual(["application/octet-stream", ""]);
});

test("bytes of every value come through", () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, value) => value);
  const base64 = Buffer.from(bytes).toString("base64");
  const percent = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  for (const uri of [`data:a/b;base64,${base64}`, `data:a/b,${percent}`])
    expect(Buffer.from(parseDataUri(uri, 256).bytes).equals(bytes)).toBe(true);
});

test("rejects what is not a data: URI", () => {
  for (const uri of [
    "data:text/plain",
    "data:text plain,a",
    "data:text/plain;base64,a",
    "data:text/plain;base64,a b=",
    "data:text/plain;base64,YQ=====",
    "data:text/plain,%4",
    "data:text/plain,%zz",
    "data:text/plain,ä",
    "https://example.com/",
  ])
    expect(() => parseDataUri(uri, 100), uri).toThrow(/malformed/);
});

test("a data: URI of too many bytes is refused by its length", () => {
  for (const uri of ["data:,1234567", "data:,%31234567", "data:;base64,MTIzNDU2Nw=="]) {
    expect(parseDataUri(uri, 7).bytes).toHaveLength(7);
    expect(() => parseDataUri(uri, 6), uri).toThrow(
      expect.objectContaining({
        code: -32602,
        data: { reason: "maxSizeExceeded", maxSize: 6, actualSize: 7 },
      }),
    );
  }
});

test("a digest goes to base64url without padding and back", () => {
  // the example of SEP-2631 §4
  const value = "uU0nuZNNPgilLlLX2n2r-sSE7-N6U4D6ZVe-_rYh2sU";
  const sha256 = parseDigest(value)!;
  expect(sha256).toMatch(/^[0-9a-f]{64}$/);
  expect(formatDigest(sha256)).toEqual({ algorithm: "sha-256", value });
  for (const wrong of ["", value.slice(1), `${value}=`, `${value.slice(0, -1)}V`, "a/".repeat(22)])
    expect(parseDigest(wrong), wrong).toBeUndefined();
});
