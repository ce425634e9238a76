import { createHash, hkdfSync } from "node:crypto";
import { createSha256, formatReprDigest, parseReprDigest } from "@sluice/core/internal";
import { afterEach, describe, expect, test, vi } from "vitest";
import { hkdfSha256, hmacSha256 } from "../src/bytes/hmac-sha256.ts";

const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const abcField = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";

describe.each(["native", "portable"])("SHA-256, %s", (kind) => {
  afterEach(() => vi.unstubAllGlobals());

  function create() {
    if (kind === "portable") vi.stubGlobal("process", undefined);
    const hash = createSha256();
    vi.unstubAllGlobals();
    return hash;
  }

  test("known answers (FIPS 180-4)", () => {
    const one = create();
    one.update(new TextEncoder().encode("abc"));
    expect(one.digest()).toBe(abc);
    expect(create().digest()).toBe(
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
  });

  test("bytes in any pieces give the same digest, and pieces may be reused", () => {
    const bytes = Uint8Array.from({ length: 10_000 }, (_, at) => (at * 7) % 251);
    const whole = createHash("sha256").update(bytes).digest("hex");
    for (const step of [1, 63, 64, 65, 4_096]) {
      const hash = create();
      const buffer = new Uint8Array(step);
      for (let at = 0; at < bytes.length; at += step) {
        const piece = bytes.subarray(at, at + step);
        buffer.set(piece);
        hash.update(buffer.subarray(0, piece.length));
        buffer.fill(0);
      }
      expect(hash.digest()).toBe(whole);
    }
  });
});

test("HMAC-SHA256 has the known answers, native and portable (RFC 4231)", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const ask = (): string =>
    Buffer.from(hmacSha256(bytes("Jefe"), bytes("what do ya want for nothing?"))).toString("hex");
  const answer = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  expect(ask()).toBe(answer);
  vi.stubGlobal("process", undefined);
  const portable = hmacSha256(bytes("Jefe"), bytes("what do ya want for nothing?"));
  vi.unstubAllGlobals();
  expect(Buffer.from(portable).toString("hex")).toBe(answer);
});

test("HKDF-SHA256 is that of Node.js, native and portable (RFC 5869)", () => {
  const key = Uint8Array.from({ length: 32 }, (_, at) => (at * 11) % 256);
  const info = "sluice/v1/download \u00e9";
  const answer = Buffer.from(hkdfSync("sha256", key, "", info, 32)).toString("hex");
  expect(Buffer.from(hkdfSha256(key, info)).toString("hex")).toBe(answer);
  vi.stubGlobal("process", undefined);
  const portable = hkdfSha256(key, info);
  vi.unstubAllGlobals();
  expect(Buffer.from(portable).toString("hex")).toBe(answer);
});

test("runtimes whose process has no built-in modules take the portable one", () => {
  vi.stubGlobal("process", {});
  const hash = createSha256();
  vi.unstubAllGlobals();
  hash.update(new TextEncoder().encode("abc"));
  expect(hash.digest()).toBe(abc);
});

describe("Repr-Digest (RFC 9530)", () => {
  test("a SHA-256 is written as base64 between colons", () => {
    expect(formatReprDigest(abc)).toBe(abcField);
    expect(formatReprDigest(abc.toUpperCase())).toBe(abcField);
    for (const wrong of ["", "abc", abc.slice(1), `${abc}0`, `${abc.slice(1)}g`])
      expect(() => formatReprDigest(wrong)).toThrow(TypeError);
  });

  test.each([
    ["alone", abcField],
    ["with white space around", ` ${abcField}\t`],
    ["beside others", `sha-512=:AAAA:, ${abcField} ,\tmd5=:AAAA:`],
    [
      "beside members of any type",
      `a, b=?1, c=1.5, d="x,y\\"", e=tok/en:*, f=@-17, g=:YQ==:;p=1;q, ${abcField}`,
    ],
    ["with parameters", `${abcField};q=0.5; r="a";s`],
    ["given twice, the later one", `sha-256=:AAAA:, ${abcField}`],
    ["without padding", abcField.replace("=:", ":").replace("256:", "256=:")],
  ])("a SHA-256 is found %s", (_, header) => {
    expect(parseReprDigest(header)).toBe(abc);
  });

  test.each([
    ["absent", undefined],
    ["absent, as Headers gives it", null],
    ["empty", ""],
    ["of another algorithm", "sha-512=:AAAA:"],
    ["of a wrong length", "sha-256=:AAAA:"],
    ["without a value", "sha-256"],
    ["of a type other than bytes", 'sha-256="abc"'],
    ["overwritten by a wrong one", `${abcField}, sha-256=?0`],
    ["in capitals, which keys may not have", abcField.toUpperCase()],
    ["in an old form", `sha-256=${abcField.slice(9, -1)}`],
    ["behind a comma too many", `${abcField},`],
    ["before a malformed member", `${abcField}, =`],
    ["behind a malformed member", `sha 512=:AAAA:, ${abcField}`],
    ["without the last colon", abcField.slice(0, -1)],
    ["with white space in the bytes", abcField.replace("+", " ")],
    ["with padding in the middle", abcField.replace("+", "=")],
    ["joined by a semicolon", `sha-512=:AAAA:; ${abcField.replace("sha-256", "1")}`],
  ])("there is none when it is %s", (_, header) => {
    expect(parseReprDigest(header)).toBeUndefined();
  });

  test("a long header costs no more than its length", () => {
    for (const part of ["a,", "a;", 'a="\\"', ", ", "a=:A", "a;b=1", " ", '"', "a=@1"])
      expect(parseReprDigest(`${part.repeat(50_000)}\0`)).toBeUndefined();
  });
});
