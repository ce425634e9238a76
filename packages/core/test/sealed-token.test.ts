import {
  createKeyRing,
  createSealer,
  generateKey,
  resourceTag,
  SluiceError,
  tokenLifetimes,
} from "@sluice/core";
import type { KeyState, TokenClaims, TokenPurpose } from "@sluice/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { makeVectors } from "./vectors/make-vectors.ts";
import vectors from "./vectors/sealed-tokens.json" with { type: "json" };

const ring = createKeyRing(
  vectors.keys.map(({ kid, state, key }) => ({
    kid,
    state: state as KeyState,
    key: Buffer.from(key, "hex"),
  })),
);
const audience = "https://mcp.example.com/mcp";
const now = 1_800_000_000_000;
const user = { issuer: "https://id.example", subject: "user-1", clientId: "client-1" };

function codeOf(call: () => unknown): string {
  try {
    call();
    return "none";
  } catch (error) {
    return SluiceError.is(error) ? error.code : (error as Error).name;
  }
}

afterEach(() => vi.restoreAllMocks());

describe("vectors", () => {
  test("the file is what the independent computation gives", () => {
    expect(JSON.parse(JSON.stringify(makeVectors()))).toEqual(vectors);
  });

  test.each(vectors.pass)("opens: $name", (vector) => {
    const sealer = createSealer({ keys: ring, audience: vector.audience });
    const opened = sealer.unseal(vector.purpose as TokenPurpose, vector.token, vector);
    const { key, use, issuedAt, expiresAt, principal, etag } = vector.terms as TokenClaims & {
      issuedAt: number;
      expiresAt: number;
    };
    expect(opened).toMatchObject({
      id: Buffer.from(vector.id, "hex").toString("base64url"),
      key,
      use,
      issuedAt,
      expiresAt,
      auth: principal ? "bound" : "self",
      sessionBound: Boolean(principal?.sessionId),
      etagBound: etag !== undefined,
    });
    expect(opened.matchesPrincipal(principal ?? user)).toBe(principal !== undefined);
    expect(opened.matchesPrincipal({ ...user, subject: "user-2" })).toBe(false);
    expect(opened.matchesEtag(etag)).toBe(true);
    expect(opened.matchesEtag("another")).toBe(etag === undefined);
    expect(opened.matchesEtag(undefined)).toBe(etag === undefined);
  });

  test.each(vectors.pass.filter(({ token }) => token.startsWith("v1.k1.")))(
    "seals the same characters: $name",
    (vector) => {
      const { issuedAt, expiresAt, ...terms } = vector.terms as TokenClaims & {
        issuedAt: number;
        expiresAt: number;
      };
      const random = Buffer.from(vector.nonce + vector.id, "hex");
      vi.spyOn(crypto, "getRandomValues").mockImplementation((array) => {
        (array as Uint8Array).set(random);
        return array;
      });
      const sealer = createSealer({ keys: ring, audience: vector.audience });
      const ttlMs = expiresAt - issuedAt;
      const sealed = sealer.seal(vector.purpose as TokenPurpose, {
        ...terms,
        ttlMs,
        now: issuedAt,
      });
      expect(sealed).toEqual({
        token: vector.token,
        id: random.subarray(24).toString("base64url"),
        issuedAt,
        expiresAt,
      });
    },
  );

  test.each(vectors.fail)("refuses as $code: $name", (vector) => {
    const sealer = createSealer({ keys: ring, audience: vector.audience });
    const open = () => sealer.unseal(vector.purpose as TokenPurpose, vector.token, vector);
    expect(codeOf(open)).toBe(vector.code);
  });

  test("every refusal but expired reads the same", () => {
    const messages = vectors.fail.map((vector) => {
      const sealer = createSealer({ keys: ring, audience: vector.audience });
      try {
        return sealer.unseal(vector.purpose as TokenPurpose, vector.token, vector).key;
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect(new Set(messages)).toEqual(
      new Set(["token: not valid here", "token: expired; ask for a new one"]),
    );
  });
});

describe("binding", () => {
  const sealer = createSealer({ keys: ring, audience });

  test("a token of a user's session is good for that user without the session, and in no other one", () => {
    const inSession = { ...user, sessionId: "s1" };
    const { token } = sealer.seal("download", { key: "a", principal: inSession, now });
    const opened = sealer.unseal("download", token, { now });
    expect(opened.matchesPrincipal(inSession)).toBe(true);
    expect(opened.matchesPrincipal(user)).toBe(true);
    expect(opened.matchesPrincipal({ ...user, sessionId: "s2" })).toBe(false);
    expect(opened.matchesPrincipal({ ...user, subject: "" })).toBe(false);
    expect(opened.matchesPrincipal({ ...inSession, subject: "" })).toBe(false);
    expect(opened.matchesPrincipal({ ...inSession, subject: "user-2" })).toBe(false);
    expect(opened.sessionTag).toBe(resourceTag("s1"));
  });

  test("a token that is not bound to a session does not ask for one", () => {
    const { token } = sealer.seal("download", { key: "a", principal: user, now });
    const opened = sealer.unseal("download", token, { now });
    expect(opened.matchesPrincipal({ ...user, sessionId: "any" })).toBe(true);
  });

  test("a session by itself can hold a token, a client id cannot", () => {
    const unnamed = { issuer: "", subject: "", clientId: "client-1" };
    const inSession = { ...unnamed, sessionId: "s1" };
    const { token } = sealer.seal("download", { key: "a", principal: inSession, now });
    const opened = sealer.unseal("download", token, { now });
    expect(opened.matchesPrincipal(inSession)).toBe(true);
    expect(opened.matchesPrincipal(unnamed)).toBe(false);
    expect(opened.matchesPrincipal({ ...unnamed, sessionId: "s2" })).toBe(false);
    expect(opened.matchesPrincipal(user)).toBe(false);
    expect(() => sealer.seal("download", { key: "a", principal: unnamed, now })).toThrow(TypeError);
  });

  test("an invalid principal matches nothing", () => {
    const { token } = sealer.seal("download", { key: "a", principal: user, now });
    const opened = sealer.unseal("download", token, { now });
    for (const subject of ["user-1\ud800", 7, undefined, "x".repeat(70_000)])
      expect(opened.matchesPrincipal({ ...user, subject } as never)).toBe(false);
  });

  test("a token opened before its key was dropped matches no principal afterwards", () => {
    const keys = createKeyRing([generateKey({ kid: "a1" })]);
    const own = createSealer({ keys, audience });
    const { token } = own.seal("download", { key: "a", principal: user, etag: "1", now });
    const opened = own.unseal("download", token, { now });
    keys.replace([generateKey({ kid: "a2" })]);
    expect(opened.matchesPrincipal(user)).toBe(false);
    expect(opened.matchesEtag("1")).toBe(false);
    expect(codeOf(() => own.unseal("download", token, { now }))).toBe("not_found");
  });

  test("a token is made for the key that the ring has now, whatever was made under one of the same name before", () => {
    const keys = createKeyRing([generateKey({ kid: "a1" })]);
    const own = createSealer({ keys, audience });
    const claims = { key: "a", principal: user, etag: "1", now } as const;
    own.seal("download", claims);
    const later = generateKey({ kid: "a1" });
    keys.replace([later]);
    const { token } = own.seal("download", claims);
    const other = createSealer({ keys: createKeyRing([later]), audience });
    const opened = other.unseal("download", token, { now });
    expect(opened.matchesPrincipal(user)).toBe(true);
    expect(opened.matchesEtag("1")).toBe(true);
    expect(opened.matchesEtag("2")).toBe(false);
  });

  test("users and versions stay distinct however many tokens were made before", () => {
    const own = createSealer({ keys: createKeyRing([generateKey()]), audience });
    const claimsOf = (n: number) =>
      ({ key: "a", principal: { ...user, subject: `user-${n}` }, etag: `${n}`, now }) as const;
    const tokens = Array.from({ length: 1_200 }, (_, n) => own.seal("download", claimsOf(n)).token);
    for (const n of [0, 1, 511, 512, 1_199]) {
      const opened = own.unseal("download", tokens[n]!, { now });
      expect(opened.matchesPrincipal(claimsOf(n).principal)).toBe(true);
      expect(opened.matchesPrincipal(claimsOf(n + 1).principal)).toBe(false);
      expect(opened.matchesEtag(`${n}`)).toBe(true);
      expect(opened.matchesEtag(`${n + 1}`)).toBe(false);
    }
  });

  test("tokens work at any spelling of the same audience, and at no other", () => {
    const { token } = sealer.seal("download", { key: "a", now });
    const at = (url: string) => () =>
      createSealer({ keys: ring, audience: url }).unseal("download", token, { now });
    expect(codeOf(at("HTTPS://MCP.example.com:443/mcp"))).toBe("none");
    for (const url of ["http://mcp.example.com/mcp", `${audience}/`, `${audience}?a`])
      expect(codeOf(at(url))).toBe("not_found");
    for (const url of [
      "",
      "/mcp",
      "mcp.example.com",
      `${audience}#a`,
      "https://u:p@mcp.example.com/",
    ])
      expect(at(url)).toThrow(TypeError);
    expect(at("https://:p@mcp.example.com/")).toThrow(TypeError);
  });
});

describe("sealing", () => {
  const sealer = createSealer({ keys: ring, audience });
  const never = [
    Number.NaN,
    Infinity,
    -Infinity,
    -1,
    -0,
    0,
    999,
    2 ** 32,
    Number.MAX_VALUE,
    "300",
    "300000",
    300_000n,
    {},
    [300_000],
    true,
    Symbol("300"),
    new Date(300_000),
  ];

  test.each(["download", "link", "upload", "resume", "connect"] as const)(
    "a %s token lives at most as long as its purpose and auth allow, and always ends",
    (purpose) => {
      for (const auth of ["bound", "self"] as const) {
        const { ttlMs, maxTtlMs } = tokenLifetimes[purpose][auth];
        const terms = { key: "a", now, ...(auth === "bound" && { principal: user }) };
        expect(sealer.seal(purpose, terms).expiresAt).toBe(now + ttlMs);
        expect(sealer.seal(purpose, { ...terms, ttlMs: maxTtlMs }).expiresAt).toBe(now + maxTtlMs);
        expect(sealer.seal(purpose, { ...terms, ttlMs: 1_999 }).expiresAt).toBe(now + 1_000);
        for (const wrong of [...never, maxTtlMs + 1])
          expect(() => sealer.seal(purpose, { ...terms, ttlMs: wrong as number })).toThrow(
            RangeError,
          );
      }
    },
  );

  test("an invalid time is refused, sealing and opening", () => {
    const { token } = sealer.seal("download", { key: "a", now });
    for (const wrong of [Number.NaN, Infinity, -1, 2 ** 32 * 1_000, String(now), BigInt(now), {}]) {
      const time = wrong as number;
      expect(() => sealer.seal("download", { key: "a", now: time })).toThrow(RangeError);
      expect(() => sealer.unseal("download", token, { now: time })).toThrow(RangeError);
    }
  });

  test("the clock is the default time", () => {
    vi.spyOn(Date, "now").mockReturnValue(now);
    const { token, issuedAt } = sealer.seal("download", { key: "a" });
    expect(issuedAt).toBe(now);
    expect(sealer.unseal("download", token).key).toBe("a");
  });

  test("terms that cannot be sealed are refused", () => {
    for (const key of ["", "a".repeat(1_041), "é".repeat(521), "a\udc00", 7, undefined])
      expect(() => sealer.seal("download", { key: key as string, now })).toThrow(TypeError);
    for (const use of ["twice", "toString", "__proto__", ""])
      expect(() => sealer.seal("download", { key: "a", use: use as "once", now })).toThrow(
        TypeError,
      );
    for (const etag of ["\ud800", 7, "x".repeat(70_000)])
      expect(() => sealer.seal("download", { key: "a", etag: etag as string, now })).toThrow(
        TypeError,
      );
    for (const purpose of ["principal", "toString", "__proto__", ""]) {
      expect(() => sealer.seal(purpose as "upload", { key: "a", now })).toThrow(TypeError);
      expect(() => sealer.unseal(purpose as "upload", "v1", { now })).toThrow(TypeError);
    }
  });

  test("only a link has a key of more than 1,040 bytes, and its URL 4 KiB at most", () => {
    for (const length of [1, 1_040, 1_041, 2_900]) {
      const key = "a".repeat(length);
      const { token } = sealer.seal("link", { key, now });
      expect(token.length).toBeLessThan(4_096);
      expect(sealer.unseal("link", token, { now }).key).toBe(key);
    }
    const { token } = sealer.seal("link", { key: "a".repeat(1_041), now });
    expect(codeOf(() => sealer.unseal("download", token, { now }))).toBe("not_found");
    expect(() => sealer.seal("link", { key: "a".repeat(2_901), now })).toThrow(TypeError);
    const kept = { key: "a".repeat(16_384), now };
    const { token: record } = sealer.seal("link", kept, { secret: "s" });
    expect(sealer.unseal("link", record, { now, secret: "s" }).key).toBe(kept.key);
    expect(codeOf(() => sealer.unseal("link", record, { now }))).toBe("not_found");
    expect(() => sealer.seal("link", { ...kept, key: `${kept.key}a` }, { secret: "s" })).toThrow(
      TypeError,
    );
  });

  test("a token with a secret opens with the same one only", () => {
    const { token } = sealer.seal("download", { key: "a", now }, { secret: "s" });
    expect(sealer.unseal("download", token, { now, secret: "s" }).key).toBe("a");
    for (const secret of ["t", "", undefined])
      expect(
        codeOf(() =>
          sealer.unseal("download", token, { now, ...(secret !== undefined && { secret }) }),
        ),
      ).toBe("not_found");
    const { token: open } = sealer.seal("download", { key: "a", now });
    expect(codeOf(() => sealer.unseal("download", open, { now, secret: "s" }))).toBe("not_found");
  });

  test("nothing is sealed when the random source fails", () => {
    vi.spyOn(crypto, "getRandomValues").mockImplementation(() => {
      throw new Error("no entropy");
    });
    expect(() => sealer.seal("download", { key: "a", now })).toThrow("no entropy");
    expect(() => generateKey()).toThrow("no entropy");
  });

  test("text of another length than a token is not even looked at", () => {
    const { token } = sealer.seal("download", { key: "a", now });
    const derive = vi.fn<() => undefined>();
    const watched = createSealer({ keys: { ...ring, derive }, audience });
    for (const other of [`${token}AAAA`, token.slice(0, -4), `v1.k1.${"A".repeat(1_000_000)}`])
      expect(codeOf(() => watched.unseal("download", other, { now }))).toBe("not_found");
    expect(derive).not.toHaveBeenCalled();
    expect(codeOf(() => watched.unseal("download", token, { now }))).toBe("not_found");
    expect(derive).toHaveBeenCalledTimes(1);
  });

  test("only a string is a token", () => {
    for (const token of [undefined, 7, {}, ["v1"], new String("v1"), "x".repeat(10_000_000)])
      expect(codeOf(() => sealer.unseal("download", token as string, { now }))).toBe("not_found");
  });
});
