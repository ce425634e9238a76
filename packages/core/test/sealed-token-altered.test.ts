import { createCipheriv } from "node:crypto";
import { createKeyRing, createSealer, generateKey, SluiceError } from "@sluice/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { randomNumbers } from "./random-numbers.ts";

// no reader needs the stacks of millions of refusals, and taking them costs most of the time
const { stackTraceLimit } = Error;
beforeAll(() => void (Error.stackTraceLimit = 0));
afterAll(() => void (Error.stackTraceLimit = stackTraceLimit));

const deep = Boolean(process.env["SLUICE_DEEP"]);
const timeout = deep ? 1_800_000 : 90_000;
const runs = (full: number) => (deep ? full : full / 1_000);

const keys = createKeyRing([generateKey()]);
const audience = "https://mcp.example.com/mcp";
const sealer = createSealer({ keys, audience });
const now = 1_800_000_000_000;
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const characters = `${digits}.=+/ \n`;

function opens(token: string): boolean {
  try {
    sealer.unseal("download", token, { now });
    return true;
  } catch (error) {
    if (SluiceError.is(error) && (error.code === "not_found" || error.code === "expired"))
      return false;
    throw error;
  }
}

describe("altered tokens", () => {
  test(
    "no token with one character replaced, inserted, dropped or swapped opens",
    { timeout },
    () => {
      let opened = 0;
      for (let n = 0; n < Math.ceil(runs(20)); n++) {
        const { token } = sealer.seal("download", { key: `file-${n}`, now });
        for (let at = 0; at <= token.length; at++) {
          const [before, here, after] = [token.slice(0, at), token[at] ?? "", token.slice(at + 1)];
          for (const character of characters) {
            if (character !== here && opens(before + character + after)) opened++;
            if (opens(before + character + here + after)) opened++;
          }
          if (here !== "" && opens(before + after)) opened++;
          if (after !== "" && after[0] !== here && opens(before + after[0] + here + after.slice(1)))
            opened++;
        }
      }
      expect(opened).toBe(0);
    },
  );

  test("no token with any bytes changed opens", { timeout }, () => {
    const random = randomNumbers(1);
    const tokens = Array.from(
      { length: 20 },
      (_, n) => sealer.seal("download", { key: "f".repeat(1 + n * 40), now }).token,
    );
    let opened = 0;
    for (let n = 0; n < runs(1_000_000); n++) {
      const token = tokens[random(tokens.length)]!;
      const bytes = Buffer.from(token.slice(6), "base64url");
      for (let edits = 1 + random(4); edits > 0; edits--)
        bytes[random(bytes.length)]! ^= 1 + random(255);
      const altered = `v1.k1.${bytes.toString("base64url")}`;
      if (altered !== token && opens(altered)) opened++;
    }
    expect(opened).toBe(0);
  });

  test("no random string of the right grammar opens", { timeout }, () => {
    const random = randomNumbers(2);
    // a key stream: as many random bytes as are asked for, at once and the same in every run
    const stream = createCipheriv("aes-128-ctr", Buffer.alloc(16), Buffer.alloc(16));
    const zeros = Buffer.alloc(184 * 1_000);
    let bytes = zeros;
    let opened = 0;
    for (let n = 0; n < runs(10_000_000); n++) {
      const at = (n % 1_000) * 184;
      if (at === 0) bytes = stream.update(zeros);
      // one in twenty names the live key, so that its cipher is asked and not only its name
      const kid =
        n % 20 === 0
          ? "k1"
          : random(36 ** 2)
              .toString(36)
              .padStart(2, "0");
      if (opens(`v1.${kid}.${bytes.toString("base64url", at, at + 184)}`)) opened++;
    }
    expect(opened).toBe(0);
  });

  test("a token has one spelling", () => {
    const { token } = sealer.seal("download", { key: "a", now });
    const stem = token.slice(0, -1);
    const others = [
      ...Array.from(digits, (digit) => stem + digit),
      ...["=", "==", "===", "%3D", "\n", " ", "\0", "."].map((tail) => token + tail),
      ...[" ", "\n", "\ufeff", "%"].map((head) => head + token),
      ...Array.from(token, (character, at) => {
        const hex = character.charCodeAt(0).toString(16);
        return `${token.slice(0, at)}%${hex}${token.slice(at + 1)}`;
      }),
      token.replaceAll("-", "+").replaceAll("_", "/"),
      token.toUpperCase(),
      token.toLowerCase(),
      token.replace("v1", "V1"),
      encodeURIComponent(token).replaceAll(".", "%2E"),
    ];
    const distinct = [...new Set(others)].filter((other) => other !== token);
    expect(distinct.length).toBeGreaterThan(300);
    expect(distinct.filter((other) => opens(other))).toEqual([]);
    expect(opens(token)).toBe(true);
  });
});
