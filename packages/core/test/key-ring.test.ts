import { hkdfSync, randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { createKeyRing, formatKey, generateKey, type SealingKey } from "@sluice/core";
import { parseKey } from "@sluice/core/internal";
import { describe, expect, test } from "vitest";

const secret = (): Uint8Array => new Uint8Array(randomBytes(32));

function good(): SealingKey {
  return { kid: "k1", key: secret() };
}

function messageOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return inspect(error);
  }
  throw new Error("nothing was refused");
}

describe("a key ring", () => {
  test("derives by HKDF-SHA256, once", () => {
    const key = secret();
    const ring = createKeyRing([{ kid: "k1", key }]);
    const expected = hkdfSync("sha256", key, "", "sluice/v1/download", 32);
    const derived = ring.derive("k1", "sluice/v1/download");
    expect(Buffer.from(derived!).equals(Buffer.from(expected))).toBe(true);
    expect(ring.derive("k1", "sluice/v1/download")).toBe(derived);
    expect(ring.derive("k1", "sluice/v1/upload")).not.toEqual(derived);
    expect(ring.derive("k2", "sluice/v1/download")).toBeUndefined();
    expect(ring.derive("", "x")).toBeUndefined();
  });

  test("tells its names, the sealing one, and which are newer", () => {
    const ring = createKeyRing([
      { kid: "b0", key: secret(), state: "previous" },
      { kid: "b1", key: secret() },
      { kid: "b2", key: secret(), state: "next" },
    ]);
    expect(ring.current).toBe("b1");
    expect(ring.kids).toEqual(["b2", "b1", "b0"]);
  });

  test("keeps copies: bytes that are wiped afterwards change nothing", () => {
    const key = secret();
    const ring = createKeyRing([{ kid: "k1", key }]);
    const expected = createKeyRing([{ kid: "k1", key: key.slice() }]).derive("k1", "x");
    key.fill(0);
    expect(ring.derive("k1", "x")).toEqual(expected);
  });

  test("replacing keys drops the old ones at once, and a wrong set changes nothing", () => {
    const ring = createKeyRing([{ kid: "k1", key: secret() }]);
    const first = ring.derive("k1", "x");
    expect(() => ring.replace([])).toThrow(TypeError);
    expect(ring.derive("k1", "x")).toBe(first);
    ring.replace([{ kid: "k1", key: secret() }]);
    expect(ring.derive("k1", "x")).not.toEqual(first);
    ring.replace([{ kid: "k2", key: secret() }]);
    expect(ring.derive("k1", "x")).toBeUndefined();
    expect(ring.current).toBe("k2");
  });

  test("is read from text as from objects", () => {
    const keys = [generateKey(), generateKey({ kid: "k0", state: "previous" })];
    const text = keys.map(formatKey).join(", ");
    const ring = createKeyRing(text);
    expect(ring.kids).toEqual(["k1", "k0"]);
    expect(ring.derive("k0", "x")).toEqual(createKeyRing(keys).derive("k0", "x"));
  });
});

describe("a key ring rejects", () => {
  test.each<[string, () => unknown]>([
    ["no keys", () => []],
    ["no text", () => ""],
    ["two current keys", () => [good(), { ...good(), kid: "k2" }]],
    ["no current key", () => [{ ...good(), state: "next" }]],
    ["two keys of one name", () => [good(), { ...good(), state: "previous" }]],
    ["another state", () => [good(), { kid: "k2", key: secret(), state: "old" }]],
    ["a long name", () => [{ ...good(), kid: "key" }]],
    ["a short name", () => [{ ...good(), kid: "k" }]],
    ["a name in capitals", () => [{ ...good(), kid: "K1" }]],
    ["a name that is not a string", () => [{ ...good(), kid: 11 }]],
    ["a name with a line break", () => [{ ...good(), kid: "k\n" }]],
    ["31 bytes", () => [{ ...good(), key: secret().subarray(1) }]],
    ["33 bytes", () => [{ ...good(), key: new Uint8Array(randomBytes(33)) }]],
    ["no bytes", () => [{ ...good(), key: new Uint8Array(0) }]],
    ["text for bytes", () => [{ ...good(), key: "x".repeat(32) }]],
    ["an array for bytes", () => [{ ...good(), key: Array.from(secret()) }]],
    ["a key copied without its bytes", () => [{ ...generateKey() }]],
  ])("%s", (_, keys) => {
    expect(() => createKeyRing(keys() as SealingKey[])).toThrow(TypeError);
  });

  test.each<[string, Uint8Array]>([
    ["zeros", new Uint8Array(32)],
    ["one repeated byte", new Uint8Array(32).fill(0xa5)],
    ["a rising sequence", Uint8Array.from({ length: 32 }, (_, n) => n)],
    ["a rising sequence from elsewhere", Uint8Array.from({ length: 32 }, (_, n) => 0x80 + n)],
    ["a falling sequence", Uint8Array.from({ length: 32 }, (_, n) => 255 - n)],
    ["a sequence of steps", Uint8Array.from({ length: 32 }, (_, n) => n * 17)],
    ["16 bytes twice", new Uint8Array(Buffer.concat(Array(2).fill(randomBytes(16)) as Buffer[]))],
    ["4 bytes 8 times", Uint8Array.from({ length: 32 }, (_, n) => [1, 250, 3, 94][n % 4]!)],
    ["few different bytes", Uint8Array.from(randomBytes(32), (byte) => byte % 10)],
    ["a passphrase", new TextEncoder().encode("correct horse battery staple 123")],
    ["hex text", new TextEncoder().encode(randomBytes(16).toString("hex"))],
    [
      "a short secret filled with zeros",
      Uint8Array.from([1, 2, 30, 4, 50, 6, 70, 8, ...Array<number>(24).fill(0)]),
    ],
    [
      "the AES-256 key of NIST SP 800-38A",
      new Uint8Array(
        Buffer.from("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", "hex"),
      ),
    ],
  ])("%s, without repeating it", (_, key) => {
    const message = messageOf(() => createKeyRing([{ kid: "k1", key }]));
    expect(message).toMatch(/key ring: key "k1" .*; make one with generateKey\(\)/);
    for (const encoding of ["hex", "base64", "base64url", "latin1"] as const)
      expect(message).not.toContain(Buffer.from(key).toString(encoding).slice(0, 20));
  });

  test("no random key is refused", { tags: "slow" }, () => {
    for (let n = 0; n < 20_000; n++)
      createKeyRing([{ kid: "k1", key: crypto.getRandomValues(new Uint8Array(32)) }]);
    expect(createKeyRing([generateKey()]).current).toBe("k1");
  });
});

describe("the text form of a key", () => {
  test("comes back as it was", () => {
    for (const state of ["next", "current", "previous"] as const) {
      const key = generateKey({ kid: "z9", state });
      const read = parseKey(` ${formatKey(key)}\n`);
      expect(read.key).toEqual(key.key);
      expect(read).toMatchObject({ kid: "z9", state });
    }
    expect(formatKey({ kid: "k1", key: secret() })).toMatch(/^k1:[A-Za-z0-9_-]{43}$/);
    expect(formatKey(generateKey({ state: "next" }))).toMatch(/^k1:[A-Za-z0-9_-]{43}:next$/);
  });

  test("a malformed one is refused without being repeated", () => {
    const [kid, body] = formatKey(generateKey()).split(":") as [string, string];
    for (const text of [
      "",
      "k1",
      "k1:",
      `${kid}:${body}=`,
      `${kid}:${body.slice(1)}`,
      `${kid}:${body}:current:x`,
      `${kid}:${body}:old`,
      body,
      `:${body}`,
      `${kid} ${body}`,
      `${kid}:+${body.slice(1)}`,
    ]) {
      const message = messageOf(() => createKeyRing(text));
      expect(message).toContain("TypeError: key ring: ");
      expect(message).not.toContain(body.slice(1, 20));
    }
  });
});

test("keys are not seen in what is printed", () => {
  const key = generateKey();
  const ring = createKeyRing([key]);
  ring.derive("k1", "x");
  for (const value of [key, ring, { ring, key }, [key]])
    for (const text of [inspect(value, { depth: 9 }), JSON.stringify(value)]) {
      const secrets = [key.key, ring.derive("k1", "x")!].map((bytes) => Buffer.from(bytes));
      for (const bytes of secrets) {
        expect(text).not.toContain(bytes.toString("base64url").slice(0, 12));
        expect(text).not.toContain(bytes.toString("hex").slice(0, 12));
        expect(text).not.toContain([...bytes.subarray(0, 4)].join(", "));
        expect(text).not.toContain([...bytes.subarray(0, 4)].join(","));
      }
    }
});
