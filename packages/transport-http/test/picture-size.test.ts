import { describe, expect, test } from "vitest";
import { pictureSize } from "../page/picture-size.ts";

/** Files of a program that makes them, cut off behind their size. */
const pictures: readonly (readonly [kind: string, hex: string, width: number, height: number])[] = [
  ["PNG", "89504e470d0a1a0a0000000d49484452000001e0000001400802000000", 480, 320],
  ["GIF", "4749463839612c01c800f00000", 300, 200],
  ["JPEG", "ffd8ffe000104a46494600010100000100010000ffc000110800c8012c03012200", 300, 200],
  ["JPEG in scans", "ffd8ffdb00040000ffc200110800c8012c03012200", 300, 200],
  ["WebP, lossy", "52494646000000005745425056503820000000003001009d012a2c01c800", 300, 200],
  ["WebP, lossless", "5249464600000000574542505650384c000000002f2bc1310010", 300, 200],
  ["WebP, extended", "524946460000000057454250565038580a000000100000002b0100c70000", 300, 200],
];

describe("the size of a picture", () => {
  test.each(pictures)("%s is read from its first bytes", (_, hex, width, height) => {
    expect(pictureSize(Buffer.from(hex, "hex"))).toEqual({ width, height });
  });

  test.each(pictures)("%s that is cut off anywhere before it has none", (_, hex) => {
    const bytes = Buffer.from(hex, "hex");
    const sizes = Array.from({ length: 10 }, (_none, at) => pictureSize(bytes.subarray(0, at)));
    expect(sizes).toEqual(sizes.map(() => undefined));
  });

  test.each([
    ["text", "text/plain"],
    ["SVG", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"],
    ["a WAV, which is a RIFF too", "RIFF\0\0\0\0WAVEfmt "],
    ["a JPEG of one segment without an end", "\xff\xd8\xff\xe0\xff\xff"],
    ["a JPEG whose segments are noise", "\xff\xd8\x00\x00\x00\x00"],
  ])("%s has none", (_, text) => {
    expect(pictureSize(Buffer.from(text, "latin1"))).toBeUndefined();
  });

  test("a size is what the file claims, however large", () => {
    const bytes = Buffer.from("89504e470d0a1a0a0000000d494844520000ffff0000ffff", "hex");
    expect(pictureSize(bytes)).toEqual({ width: 65_535, height: 65_535 });
  });
});
