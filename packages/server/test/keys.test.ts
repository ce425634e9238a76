import { generateKey, type KeyState, type SealingKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createSluice, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;

function start(options: Partial<SluiceOptions>): Sluice {
  return createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://demo/",
    endpoint: "https://mcp.example.com/mcp",
    keys: [generateKey()],
    anonymous: true,
    onWarning: () => {},
    ...options,
  } as SluiceOptions);
}

test("a public endpoint without keys does not start, and says how to make and open a file of them", () => {
  expect(() => start({ keys: undefined as never })).toThrow(
    /^createSluice: keys is undefined; .*`npx sluice keys new sluice\.keys`.* await openKeyFile\(\{ path: "sluice\.keys" \}\).* sluice\/node .*"ephemeral"/,
  );
});

describe("keys that a process makes for itself", () => {
  const shared = { ...createMemoryStateStore(), shared: true };

  test("are refused beside a store that processes share, with what to do", () => {
    expect(() =>
      start({ keys: "ephemeral", stores: { ...createMemoryStores(), state: shared } }),
    ).toThrow(TypeError);
    expect(() =>
      start({ keys: "ephemeral", stores: { ...createMemoryStores(), state: shared } }),
    ).toThrow("`sluice keys new`");
  });

  test("are refused beside a store that does not say whether it is shared", () => {
    const { shared: _unsaid, ...silent } = createMemoryStateStore();
    expect(() =>
      start({ keys: "ephemeral", stores: { ...createMemoryStores(), state: silent as never } }),
    ).toThrow(TypeError);
  });

  test("do in a single process, with a warning; a shared store takes keys that are shared", () => {
    const warnings: string[] = [];
    const onWarning = (message: string): void => void warnings.push(message);
    start({ keys: "ephemeral", onWarning });
    start({ keys: "ephemeral", stores: createMemoryStores(), onWarning });
    expect(warnings).toEqual(Array(2).fill(expect.stringContaining("ephemeral keys")));
    start({ stores: { ...createMemoryStores(), state: shared }, onWarning });
    expect(warnings).toHaveLength(2);
  });
});

describe("any key that is short, long, repeated or published", () => {
  const random = randomNumbers(14);
  const bytes = (length: number): Uint8Array => Uint8Array.from({ length }, () => random(256));
  const published = [
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
  ];
  const weak: readonly (() => Uint8Array)[] = [
    () => bytes(random(32)),
    () => bytes(33 + random(64)),
    () => new Uint8Array(32),
    () => new Uint8Array(32).fill(random(256)),
    () => Uint8Array.from(Buffer.from(published[random(published.length)]!, "hex")),
    () => repeated(bytes([2, 4, 8, 16][random(4)]!)),
    () => Uint8Array.from({ length: 32 }, () => 0x20 + random(95)),
  ];

  /** A ring with this key in any place of it, as objects or as text. */
  function ringWith(key: Uint8Array): NonNullable<SluiceOptions["keys"]> {
    const state = (["current", "next", "previous"] as const)[random(3)]!;
    const one = { kid: "w0", key, state };
    const ring: SealingKey[] = state === "current" ? [one] : [generateKey(), one];
    if (random(2) === 0) ring.reverse();
    return random(2) === 0 ? ring : ring.map(textOf).join(",");
  }

  const rounds = deep ? 10_000 : 200;
  test(`starts no server: ${rounds} rings with one, in every place and form`, () => {
    const outcomes = Array.from({ length: rounds }, (_, n) =>
      outcomeOf(ringWith(weak[n % weak.length]!())),
    );
    expect(new Set(outcomes)).toEqual(new Set(["TypeError"]));
  });

  test("negative control: with a key of 32 random bytes in the same places every server starts", () => {
    const outcomes = Array.from({ length: 60 }, () => outcomeOf(ringWith(generateKey().key)));
    expect(new Set(outcomes)).toEqual(new Set(["started"]));
  });
});

function outcomeOf(keys: NonNullable<SluiceOptions["keys"]>): string {
  try {
    start({ keys });
    return "started";
  } catch (error) {
    return (error as Error).name;
  }
}

function repeated(part: Uint8Array): Uint8Array {
  return Uint8Array.from({ length: 32 }, (_, at) => part[at % part.length]!);
}

function textOf({ kid, key, state = "current" }: SealingKey): string {
  const end: Record<KeyState, string> = { current: "", next: ":next", previous: ":previous" };
  return `${kid}:${Buffer.from(key).toString("base64url")}${end[state]}`;
}
