import {
  createKeyRing,
  createSealer,
  generateKey,
  SluiceError,
  type KeyState,
  type TokenClaims,
  type TokenPurpose,
} from "@sluice/core";
import { clockSkewMs } from "@sluice/core/internal";
import { createTokenStore, type StateStore } from "@sluice/state";
import { isStoredToken, createMemoryStateStore } from "@sluice/state/internal";
import { createHash } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { makeStoredVector } from "../../core/test/vectors/make-vectors.ts";
import vectors from "../../core/test/vectors/sealed-tokens.json" with { type: "json" };

const deep = process.env["SLUICE_DEEP"] !== undefined;
const timeout = deep ? 1_800_000 : 20_000;
const audience = "https://mcp.example.com/mcp";
const now = 1_800_000_000_000;
const user = { issuer: "https://id.example", subject: "user-1", clientId: "client-1" };
const tried = deep
  ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
  : "AZaz09-_";

/** A store whose records can be seen and changed, as a holder of its disk can do. */
function openStore() {
  const records = new Map<string, Uint8Array>();
  const state: StateStore = {
    ...createMemoryStateStore(),
    put: async (id, record) => void records.set(id, record),
    get: async (id) => records.get(id),
  };
  return { state, records };
}

function setUp() {
  const keys = createKeyRing([generateKey()]);
  const { state, records } = openStore();
  const tokens = createTokenStore({ keys, audience, state });
  return {
    keys,
    state,
    records,
    tokens,
    issue: async (terms: Partial<TokenClaims> = {}) =>
      (await tokens.issue("download", { key: "a.bin", now, ...terms })).token,
    codeOf: (token: string, at = now) => codeOf(tokens.open("download", token, { now: at })),
  };
}

async function codeOf(opening: Promise<unknown>): Promise<string> {
  return opening.then(
    () => "none",
    (error: unknown) => (SluiceError.is(error) ? error.code : (error as Error).name),
  );
}

afterEach(() => vi.restoreAllMocks());

describe("a stored token", () => {
  test("is what a sealed one says, for every kind of terms", async () => {
    const keys = createKeyRing([generateKey()]);
    const sealer = createSealer({ keys, audience });
    const tokens = createTokenStore({ keys, audience, state: createMemoryStateStore() });
    const kinds: TokenClaims[] = [
      { key: "a.bin" },
      { key: "a".repeat(1_024), use: "once", principal: user },
      { key: "é/b", use: "lease", principal: { ...user, sessionId: "s1" }, etag: "v1" },
      { key: "a.bin", ttlMs: 7_000, etag: "" },
    ];
    for (const terms of kinds) {
      const stored = await tokens.issue("download", { ...terms, now });
      const opened = await tokens.open("download", stored.token, { now });
      const sealed = sealer.unseal("download", sealer.seal("download", { ...terms, now }).token, {
        now,
      });
      const facts = ({ id: _id, ...told }: object & { id: string }) => JSON.stringify(told);
      expect(facts(opened)).toBe(facts(sealed));
      expect(opened).toMatchObject({ id: stored.id, expiresAt: stored.expiresAt });
      for (const other of [user, { ...user, sessionId: "s1" }, { ...user, subject: "user-2" }])
        expect(opened.matchesPrincipal(other)).toBe(sealed.matchesPrincipal(other));
      for (const etag of ["v1", "", undefined, "v2"])
        expect(opened.matchesEtag(etag)).toBe(sealed.matchesEtag(etag));
    }
  });

  test("is kept as the independent computation gives it", async () => {
    const vector = makeStoredVector();
    const { issuedAt, expiresAt, ...terms } = vector.terms;
    const keys = createKeyRing(
      vectors.keys.map(({ kid, state, key }) => ({
        kid,
        state: state as KeyState,
        key: Buffer.from(key, "hex"),
      })),
    );
    let random = Buffer.from(vector.random, "hex");
    vi.spyOn(crypto, "getRandomValues").mockImplementation((array) => {
      const { length } = array as Uint8Array;
      (array as Uint8Array).set(random.subarray(0, length));
      random = random.subarray(length);
      return array;
    });
    const { state, records } = openStore();
    const tokens = createTokenStore({ keys, audience: vector.audience, state });
    const ttlMs = expiresAt - issuedAt;
    const issued = await tokens.issue(vector.purpose, { ...terms, ttlMs, now: issuedAt });
    expect(issued).toEqual({ token: vector.token, id: vector.id, issuedAt, expiresAt });
    expect([...records].map(([id, bytes]) => [id, Buffer.from(bytes).toString()])).toEqual([
      [vector.name, vector.record],
    ]);
  });

  test("ends on time, clock skew included, and is unknown once its record may be forgotten", async () => {
    const tokens = createTokenStore({
      keys: createKeyRing([generateKey()]),
      audience,
      state: createMemoryStateStore(),
    });
    const terms = { key: "a", ttlMs: 60_000, now };
    const { token, expiresAt } = await tokens.issue("download", terms);
    const at = (time: number) => codeOf(tokens.open("download", token, { now: time }));
    expect(await at(now - 60_000)).toBe("none");
    expect(await at(now - 60_001)).toBe("not_found");
    expect(await at(expiresAt + clockSkewMs - 1)).toBe("none");
    expect(await at(expiresAt + clockSkewMs)).toBe("expired");
    expect(await at(expiresAt + 2 * clockSkewMs - 1)).toBe("expired");
    expect(await at(expiresAt + 2 * clockSkewMs)).toBe("not_found");
  });

  test("counts only for its purpose, its audience and its ring", async () => {
    const { keys, state, tokens, issue } = setUp();
    const token = await issue();
    const purposes: readonly TokenPurpose[] = ["download", "upload", "resume", "connect"];
    const codes = purposes.map((purpose) => codeOf(tokens.open(purpose, token, { now })));
    expect(await Promise.all(codes)).toEqual(["none", "not_found", "not_found", "not_found"]);
    const elsewhere = createTokenStore({ keys, audience: `${audience}/other`, state });
    expect(await codeOf(elsewhere.open("download", token, { now }))).toBe("not_found");
    const stranger = createTokenStore({ keys: createKeyRing([generateKey()]), audience, state });
    expect(await codeOf(stranger.open("download", token, { now }))).toBe("not_found");
  });

  test("ends with its key, and stays valid while that key is a previous one", async () => {
    const { keys, issue, codeOf: code } = setUp();
    const first = generateKey({ kid: "a1" });
    keys.replace([first]);
    const token = await issue();
    const second = generateKey({ kid: "a2" });
    keys.replace([second, { kid: "a1", key: first.key, state: "previous" }]);
    expect(await code(token)).toBe("none");
    keys.replace([second]);
    expect(await code(token)).toBe("not_found");
  });

  test("terms that no sealed token takes are refused, and nothing is kept of them", async () => {
    const { records, tokens } = setUp();
    const terms = { key: "a", now };
    for (const wrong of [{ key: "" }, { use: "twice" }, { principal: {} }, { etag: 7 }])
      await expect(tokens.issue("download", { ...terms, ...wrong } as never)).rejects.toThrow(
        TypeError,
      );
    await expect(tokens.issue("download", { ...terms, ttlMs: 0 })).rejects.toThrow(RangeError);
    await expect(tokens.issue("toString" as "upload", terms)).rejects.toThrow(TypeError);
    await expect(tokens.open("toString" as "upload", "x", { now })).rejects.toThrow(TypeError);
    await expect(tokens.open("download", "x", { now: Number.NaN })).rejects.toThrow(RangeError);
    expect(records.size).toBe(0);
  });

  test("nothing is issued when the random source fails", async () => {
    const { records, issue } = setUp();
    vi.spyOn(crypto, "getRandomValues").mockImplementation(() => {
      throw new Error("no entropy");
    });
    await expect(issue()).rejects.toThrow("no entropy");
    expect(records.size).toBe(0);
  });

  test("a store that is down is unavailable: nothing is issued and nothing opened", async () => {
    const { keys, issue } = setUp();
    const token = await issue();
    const down = () => Promise.reject(new SluiceError("unavailable", "store: down"));
    const state = { ...createMemoryStateStore(), put: down, get: down };
    const tokens = createTokenStore({ keys, audience, state });
    expect(await codeOf(tokens.issue("download", { key: "a" }))).toBe("unavailable");
    expect(await codeOf(tokens.open("download", token))).toBe("unavailable");
    expect(await codeOf(tokens.open("download", "made up"))).toBe("not_found");
  });
});

describe("other spellings and guesses", () => {
  test("a token with one character changed, dropped, added or swapped is unknown", async () => {
    const { issue, codeOf: code } = setUp();
    const token = await issue();
    const others = Array.from(token, (_, at) => [
      ...Array.from(tried, (digit) => token.slice(0, at) + digit + token.slice(at + 1)),
      token.slice(0, at) + token.slice(at + 1),
      `${token.slice(0, at)}A${token.slice(at)}`,
      token.slice(0, at) + (token[at + 1] ?? "") + token[at]! + token.slice(at + 2),
    ]).flat();
    const spellings = [
      ...["=", "==", "%3D", "\n", " ", "\0"].map((tail) => token + tail),
      ...["=", "\n", " ", "+", "/", ".", "%", "\u0130"].map((end) => token.slice(0, -1) + end),
      ...[" ", "\n", "\ufeff"].map((head) => head + token),
      token.toUpperCase(),
      encodeURIComponent(` ${token}`),
    ];
    const distinct = new Set([...others, ...spellings].filter((other) => other !== token));
    const codes = await Promise.all([...distinct].map((other) => code(other)));
    expect(new Set(codes)).toEqual(new Set(["not_found"]));
    expect(codes.length).toBeGreaterThan(32 * tried.length);
    expect(await code(token)).toBe("none");
  });

  test("another spelling never reaches the store", async () => {
    const { keys } = setUp();
    const get = vi.fn<StateStore["get"]>().mockResolvedValue(undefined);
    const state = { ...createMemoryStateStore(), get };
    const tokens = createTokenStore({ keys, audience, state });
    const { token: sealed } = createSealer({ keys, audience }).seal("download", { key: "a" });
    const strange = [
      "",
      "A",
      "A".repeat(31),
      "A".repeat(33),
      `${"A".repeat(31)}+`,
      "A".repeat(1e6),
    ];
    for (const token of [...strange, sealed, undefined, 7, {}, ["A".repeat(32)]]) {
      expect(isStoredToken(token as string)).toBe(false);
      expect(await codeOf(tokens.open("download", token as string))).toBe("not_found");
    }
    expect(get).not.toHaveBeenCalled();
    expect(await codeOf(tokens.open("download", "A".repeat(32)))).toBe("not_found");
    expect(get).toHaveBeenCalledTimes(1);
  });

  const guesses = deep ? 1_000_000 : 300;
  test(`none of ${guesses} random guesses is a token`, { timeout }, async () => {
    const { issue, codeOf: code } = setUp();
    for (let n = 0; n < 100; n++) await issue();
    const codes = new Set<string>();
    for (let n = 0; n < guesses; n++)
      codes.add(
        await code(Buffer.from(crypto.getRandomValues(new Uint8Array(24))).toString("base64url")),
      );
    expect(codes).toEqual(new Set(["not_found"]));
  });
});

describe("a dump of the store", () => {
  const subject = "somebody@example.com";
  const key = "secret/plans for 2027.bin";

  async function dumped() {
    const house = setUp();
    const principal = { ...user, subject };
    const issued: string[] = [];
    for (let n = 0; n < 6; n++)
      issued.push(await house.issue({ key, ...(n % 2 === 0 && { principal }) }));
    return { ...house, issued };
  }

  /** Everything in a dump that has the shape of a token, in any spelling of its bytes. */
  const candidatesIn = (records: ReadonlyMap<string, Uint8Array>): string[] =>
    [...records].flatMap(([id, record]) => {
      const spellings = [id, id.slice(6), Buffer.from(id.slice(6), "hex").toString("base64url")];
      for (const encoding of ["latin1", "hex", "base64url"] as const)
        spellings.push(Buffer.from(record).toString(encoding));
      return spellings.flatMap((text) =>
        Array.from({ length: Math.max(0, text.length - 31) }, (_, at) => text.slice(at, at + 32)),
      );
    });

  const redeemed = async (
    records: ReadonlyMap<string, Uint8Array>,
    code: (token: string) => Promise<string>,
  ): Promise<number> => {
    const codes = await Promise.all([...new Set(candidatesIn(records))].map((each) => code(each)));
    return codes.filter((each) => each === "none").length;
  };

  test("redeems nothing and names no user", async () => {
    const { records, issued, codeOf: code } = await dumped();
    expect(candidatesIn(records).length).toBeGreaterThan(3_000);
    expect(await redeemed(records, code)).toBe(0);
    const text = [...records]
      .map(([id, record]) => id + Buffer.from(record).toString("latin1"))
      .join("\n");
    for (const known of [key, "plans", subject, "somebody", user.issuer, user.clientId])
      expect(text).not.toContain(known);
    for (const token of issued)
      for (const spelling of [token, Buffer.from(token, "base64url").toString("hex")])
        expect(text).not.toContain(spelling.slice(0, 12));
    for (const token of issued) expect(await code(token)).toBe("none");
  });

  test("negative control: records kept under the tokens themselves redeem all of them", async () => {
    const { records, issued, codeOf: code } = await dumped();
    const careless = new Map(
      issued.map((token) => {
        const hash = createHash("sha256").update(token).digest("hex");
        return [`token ${token}`, records.get(`token ${hash}`)!];
      }),
    );
    expect(await redeemed(careless, code)).toBe(6);
  });

  test("tells nothing by the length of a record: there are three", async () => {
    const { records, issue } = setUp();
    for (const length of [1, 20, 85, 86, 300, 421, 422, 1_024])
      await issue({ key: "a".repeat(length) });
    expect(new Set([...records.values()].map((record) => record.length)).size).toBe(3);
  });

  test("gives a writer to it no permission", async () => {
    const { keys, state, records, issue, codeOf: code } = setUp();
    const token = await issue();
    const other = await issue({ key: "b.bin" });
    const [[id, record] = [], [otherId] = []] = [...records];
    records.set(otherId!, record!);
    expect(await code(other)).toBe("not_found");
    for (let at = 0; at < record!.length; at++) {
      const altered = record!.slice();
      altered[at]! ^= 1;
      records.set(id!, altered);
      expect(await code(token)).toBe("not_found");
    }
    for (let length = 0; length < record!.length; length += 7) {
      records.set(id!, record!.slice(0, length));
      expect(await code(token)).toBe("not_found");
    }
    // a holder of the store and a token, without a key
    const forger = createTokenStore({ keys: createKeyRing([generateKey()]), audience, state });
    const { token: forged } = await forger.issue("download", { key: "b.bin", now });
    expect(await code(forged)).toBe("not_found");
    records.set(id!, record!);
    expect(await code(token)).toBe("none");
    expect(keys.kids).toHaveLength(1);
  });
});

describe("the random bits of stored tokens", () => {
  const count = deep ? 1_000_000 : 2_000;

  /** What is wrong with tokens as random numbers; of random ones something but once in ten million. */
  function flawsOf(tokens: readonly string[]): string[] {
    const flaws: string[] = [];
    if (new Set(tokens).size < tokens.length) flaws.push("one came twice");
    const bytes = tokens.map((token) => Buffer.from(token, "base64url"));
    for (let at = 0; at < 24; at++) {
      const seen = new Uint32Array(256);
      for (const each of bytes) seen[each[at]!]! += 1;
      let ones = 0;
      for (const [value, times] of seen.entries()) ones += bitsOf(value) * times;
      const bits = tokens.length * 8;
      // both within 7 standard deviations
      if (Math.abs(ones - bits / 2) > 3.5 * Math.sqrt(bits)) flaws.push(`ones of byte ${at}`);
      const expected = tokens.length / 256;
      let spread = 0;
      for (const times of seen) spread += (times - expected) ** 2 / expected;
      if (Math.abs(spread - 255) > 7 * Math.sqrt(2 * 255)) flaws.push(`values of byte ${at}`);
    }
    return flaws;
  }

  test(
    `none of ${count} tokens comes twice, and all look random, bit by bit`,
    { timeout },
    async () => {
      const keys = createKeyRing([generateKey()]);
      const state = { ...createMemoryStateStore(), put: async () => {} };
      const tokens = createTokenStore({ keys, audience, state });
      const issued: string[] = [];
      for (let n = 0; n < count; n++)
        issued.push((await tokens.issue("download", { key: "a.bin" })).token);
      expect(flawsOf(issued)).toEqual([]);
    },
  );

  test("negative controls: counters, times, text and repeats are found out", () => {
    const made = (make: (n: number) => Uint8Array): string[] =>
      Array.from({ length: 2_000 }, (_, n) => Buffer.from(make(n)).toString("base64url"));
    const random = (): Uint8Array => crypto.getRandomValues(new Uint8Array(24));
    const withFirst = (first: number) => {
      const bytes = random();
      bytes[0] = first;
      return bytes;
    };
    const drawn = random();
    const twins = [
      made((n) => withFirst(n & 0xff ? 0 : n)),
      made((n) => withFirst(n >> 8)),
      made(() => random().map((byte) => byte & 0x7f)),
      made((n) => (n % 1_999 === 0 ? drawn : random())),
    ];
    for (const tokens of twins) expect(flawsOf(tokens)).not.toEqual([]);
    expect(flawsOf(made(random))).toEqual([]);
  });
});

function bitsOf(byte: number): number {
  let ones = 0;
  for (let rest = byte; rest > 0; rest >>= 1) ones += rest & 1;
  return ones;
}
