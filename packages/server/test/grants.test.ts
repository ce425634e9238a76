import {
  createKeyRing,
  createSealer,
  generateKey,
  tokenLifetimes,
  type Principal,
} from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import type { Revocation, SluiceOptions } from "@sluice/server";
import type { Reply } from "@sluice/server/internal";
import { createMemoryBackend } from "@sluice/storage";
import { afterEach, describe, expect, test, vi } from "vitest";
import { alice, as, bodyOf, createHouse, endpoint, headerOf, type House } from "./redeeming.ts";

const forms = ["sealed", "stored"] as const;
const uri = "files://demo/a.bin";

/** Houses that share keys and a store, as processes do. */
function createHouses(count: number, options: Partial<SluiceOptions> = {}) {
  const keys = createKeyRing([generateKey()]);
  const state = createMemoryStateStore();
  const storage = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
  const houses = Array.from({ length: count }, () =>
    createHouse({
      keys,
      stores: { ...createMemoryStores(), state },
      storage,
      ...options,
    } as Partial<SluiceOptions>),
  );
  return { keys, state, storage, houses };
}

async function mint(
  { sluice }: House,
  principal: Principal | undefined = alice,
  key = "a.bin",
): Promise<{ readonly token: string; readonly id: string; readonly expiresAt: number }> {
  const identity = { principal, mayMint: true, maxTtlMs: 3_600_000 };
  const grant = await sluice.host.mint(identity, key, await etagOf(sluice, key));
  expect(grant!.url).toBe(`${endpoint}/streams/${grant!.token}`);
  return grant!;
}

async function mintForAnybody({ sluice }: House): Promise<string> {
  const identity = { mayMint: true, maxTtlMs: 3_600_000 };
  return (await sluice.host.mint(identity, "a.bin", await etagOf(sluice, "a.bin")))!.token;
}

/** As `resources/stream` finds it; an object that is missing or denied has none. */
async function etagOf({ host }: House["sluice"], key: string): Promise<string | undefined> {
  try {
    const asked = { principal: undefined, name: key, action: "stream" } as const;
    const { storage } = await host.authorize(asked);
    return (await storage.describe(key)).etag;
  } catch {
    return undefined;
  }
}

const get = (house: House, token: string, who: Principal = alice): Promise<Reply> =>
  house.redeem(token, { headers: as(who) });

const statusOf = async (house: House, token: string): Promise<number> => {
  const reply = await get(house, token);
  await bodyOf(reply);
  return reply.status;
};

afterEach(() => {
  vi.useRealTimers();
});

test.each([
  ["stored", /^[A-Za-z0-9_-]{32}$/],
  ["sealed", /^v1\./],
] as const)("%s tokens look like it, each like no other", async (tokens, grammar) => {
  const { houses } = createHouses(1, { grant: { tokens } });
  const minted = await Promise.all(Array.from({ length: 20 }, () => mint(houses[0]!)));
  for (const { token } of minted) expect(token).toMatch(grammar);
  expect(new Set(minted.map(({ token }) => token)).size).toBe(20);
});

test("tokens are sealed unless told otherwise, and a store is not asked to make one", async () => {
  const put = vi.fn<() => Promise<void>>().mockResolvedValue();
  const house = createHouse({
    stores: { ...createMemoryStores(), state: { ...createMemoryStateStore(), put } },
  });
  expect((await mint(house)).token).toMatch(/^v1\./);
  expect(put).not.toHaveBeenCalled();
});

test("a server with stored tokens opens sealed ones, and one without asks its store for none", async () => {
  const { keys, state, houses } = createHouses(1, { grant: { tokens: "stored" } });
  const sealer = createSealer({ keys, audience: endpoint });
  const { token } = sealer.seal("download", { key: "a.bin", principal: alice });
  expect(await statusOf(houses[0]!, token)).toBe(200);
  const getRecord = vi.spyOn(state, "get");
  const other = createHouse({ keys, stores: { ...createMemoryStores(), state } });
  expect(await statusOf(other, (await mint(houses[0]!)).token)).toBe(404);
  expect(getRecord).not.toHaveBeenCalled();
});

describe.each(forms)("%s tokens", (tokens) => {
  const between = (options: Partial<SluiceOptions> = {}, grant: SluiceOptions["grant"] = {}) =>
    createHouses(2, {
      grant: { tokens, ...grant } as SluiceOptions["grant"],
      ...options,
    } as Partial<SluiceOptions>);

  test("made in one process work in another, for their principal alone", async () => {
    const { houses } = between();
    const [one, two] = houses as [House, House];
    const { token, id } = await mint(one);
    const reply = await get(two, token);
    expect([reply.status, await bodyOf(reply)]).toEqual([200, "0123456789"]);
    expect((await get(two, token, { ...alice, subject: "mallory" })).status).toBe(404);
    expect((await two.redeem(token)).status).toBe(401);
    expect(two.records.map(({ grant }) => grant)).toEqual([id, id, id]);
    expect(JSON.stringify(two.records)).not.toContain(token.slice(6, 18));
  });

  test("serve HEAD, ranges and unchanged copies", async () => {
    const [house] = between().houses;
    const { token } = await mint(house!);
    const ask = (headers: Record<string, string>, method: "GET" | "HEAD" = "GET") =>
      house!.redeem(token, { method, headers: { ...as(alice), ...headers } });
    const head = await ask({}, "HEAD");
    expect([head.status, head.transfer]).toEqual([200, undefined]);
    expect(await bodyOf(await ask({ range: "bytes=2-4" }))).toBe("234");
    expect((await ask({ "if-none-match": headerOf(head, "etag")! })).status).toBe(304);
    expect((await ask({ range: "bytes=10-" })).status).toBe(416);
  });

  test("get the same response to every refusal but expiry and change, to the byte", async () => {
    const { houses, keys } = between({
      access: (_principal, asked) => (asked.endsWith("b.bin") ? "deny" : "allow"),
    });
    const [house] = houses as [House];
    const { token } = await mint(house);
    const revoked = await mint(house);
    await house.sluice.revoke({ grant: revoked.id });
    const denied = await mint(house, alice, "b.bin");
    const gone = await mint(house, alice, "gone.bin");
    const strange = createHouse({ keys: [generateKey()], grant: { tokens } });
    const altered = token.replace(/.$/, (last) => (last === "A" ? "Q" : "A"));
    const upload = createSealer({ keys, audience: endpoint }).seal("upload", { key: "a.bin" });
    const asked = [
      altered,
      revoked.token,
      denied.token,
      gone.token,
      upload.token,
      (await mint(strange)).token,
      "A".repeat(32),
      `v1.k1.${"A".repeat(246)}`,
    ];
    const answers = await Promise.all(asked.map((each) => get(house, each)));
    answers.push(await get(house, token, { ...alice, subject: "mallory" }));
    expect(answers[0]!.status).toBe(404);
    expect(new Set(answers.map((reply) => JSON.stringify(reply))).size).toBe(1);
    expect(await statusOf(house, token)).toBe(200);
  });

  test("are used once by one of many in two processes, and HEAD uses nothing up", async () => {
    const { houses } = between({ limits: { streams: { perPrincipal: 100 } } }, { use: "once" });
    const { token } = await mint(houses[0]!);
    const head = { method: "HEAD", headers: as(alice) } as const;
    expect((await houses[1]!.redeem(token, head)).status).toBe(200);
    const statuses = await Promise.all(
      Array.from({ length: 20 }, (_, n) => statusOf(houses[n % 2]!, token)),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 404)).toHaveLength(19);
    expect((await houses[1]!.redeem(token, head)).status).toBe(404);
  });

  test("lease a number of bytes if they authenticate themselves, across processes", async () => {
    const storage = createMemoryBackend({ "a.bin": "x".repeat(1_048_576) });
    const { houses } = between({ anonymous: true, storage });
    const [one, two] = houses as [House, House];
    const token = await mintForAnybody(one);
    for (const house of [one, two, one, two, one]) expect(await statusOf(house, token)).toBe(200);
    for (const house of [one, two]) expect(await statusOf(house, token)).toBe(404);
  });

  test("are valid only in their session, and end with it in every process", async () => {
    const { houses } = between();
    const [one, two] = houses as [House, House];
    const { token } = await mint(one, { ...alice, sessionId: "s-1" });
    const ask = (sessionId: string) =>
      two.redeem(token, { method: "HEAD", headers: as(alice), sessionId });
    expect((await ask("s-1")).status).toBe(200);
    expect((await ask("s-2")).status).toBe(404);
    await one.sluice.endSession("s-1");
    expect((await ask("s-1")).status).toBe(404);
  });

  test("die with their key, at once", async () => {
    const { houses, keys } = between();
    const { token } = await mint(houses[0]!);
    expect(await statusOf(houses[1]!, token)).toBe(200);
    keys.replace([generateKey({ kid: "k2" })]);
    expect(await statusOf(houses[1]!, token)).toBe(404);
  });

  test("end on time, and say so to who has one", async () => {
    const { houses } = between({}, { ttlMs: 60_000 });
    const { token, expiresAt } = await mint(houses[0]!);
    const at = async (time: number) => {
      vi.useFakeTimers({ toFake: ["Date"], now: time });
      return get(houses[1]!, token);
    };
    expect((await at(expiresAt + 4_999)).status).toBe(200);
    const over = await at(expiresAt + 5_000);
    expect([over.status, JSON.parse(over.text!).reason]).toEqual([410, "expired"]);
    // what was kept of a stored one is forgotten then
    expect((await at(expiresAt + 10_000)).status).toBe(tokens === "stored" ? 404 : 410);
  });

  describe("are withdrawn in every process", () => {
    const bob = { ...alice, subject: "bob" };

    test.each<[string, (grant: { token: string; id: string }) => Revocation, string[]]>([
      ["by token", ({ token }) => ({ token }), ["first"]],
      ["by grant", ({ id }) => ({ grant: id }), ["first"]],
      ["by principal", () => ({ principal: alice }), ["first", "in a session", "other file"]],
      ["by resource", () => ({ resource: uri }), ["first", "in a session", "of bob"]],
    ])("%s, and no others", async (_how, revocation, dead) => {
      const { houses } = between();
      const [one, two] = houses as [House, House];
      const grants = {
        first: await mint(one),
        "in a session": await mint(one, { ...alice, sessionId: "s-1" }),
        "other file": await mint(one, alice, "b.bin"),
        "of bob": await mint(one, bob),
        "of bob, other file": await mint(one, bob, "b.bin"),
      };
      const statuses = async (): Promise<[string, number][]> =>
        Promise.all(
          Object.entries(grants).map(async ([name, { token }]) => {
            const headers = as(name.includes("bob") ? bob : alice);
            const reply = await two.redeem(token, { method: "HEAD", headers, sessionId: "s-1" });
            return [name, reply.status];
          }),
        );
      expect(new Set((await statuses()).map(([, status]) => status))).toEqual(new Set([200]));
      await two.sluice.revoke(revocation(grants.first));
      expect(
        (await statuses()).filter(([, status]) => status === 404).map(([name]) => name),
      ).toEqual(dead);
      // what is issued later is good, unless this very second counts as before
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 1_000 });
      expect(await statusOf(one, (await mint(one)).token)).toBe(200);
    });

    test.each<[string, (grant: { id: string }) => Revocation]>([
      ["by grant", ({ id }) => ({ grant: id })],
      ["by principal", () => ({ principal: alice })],
      ["by resource", () => ({ resource: uri })],
    ])("%s also where the clock of the process that made it is ahead", async (_how, revocation) => {
      const state = { ...createMemoryStateStore(), shared: true };
      const { houses } = between({ stores: { ...createMemoryStores(), state } });
      const now = Date.now();
      vi.useFakeTimers({ toFake: ["Date"], now: now + 4_999 });
      const ahead = await mint(houses[0]!);
      vi.useFakeTimers({ toFake: ["Date"], now });
      expect(await statusOf(houses[1]!, ahead.token)).toBe(200);
      await houses[1]!.sluice.revoke(revocation(ahead));
      expect(await statusOf(houses[1]!, ahead.token)).toBe(404);
      vi.useFakeTimers({ toFake: ["Date"], now: now + 6_000 });
      expect(await statusOf(houses[1]!, (await mint(houses[0]!)).token)).toBe(200);
    });

    test("stay withdrawn for as long as any of them could live", async () => {
      const { houses } = between({}, { ttlMs: tokenLifetimes.download.bound.maxTtlMs });
      const { token, expiresAt } = await mint(houses[0]!);
      await houses[0]!.sluice.revoke({ token });
      vi.useFakeTimers({ toFake: ["Date"], now: expiresAt + 4_999 });
      expect(await statusOf(houses[1]!, token)).toBe(404);
    });
  });

  test("revocation tells foreign and expired ones apart", async () => {
    const { houses, state } = between({}, { ttlMs: 1_000 });
    const revoked = vi.spyOn(state, "revoke");
    const { sluice } = houses[0]!;
    for (const token of ["", "A".repeat(32), "v1.k1.x"])
      await expect(sluice.revoke({ token })).rejects.toMatchObject({ code: "not_found" });
    const { token, expiresAt } = await mint(houses[0]!);
    vi.useFakeTimers({ toFake: ["Date"], now: expiresAt + 5_000 });
    await sluice.revoke({ token });
    expect(revoked).not.toHaveBeenCalled();
  });
});

test("a withdrawal of nothing, or of too much, is without effect", async () => {
  const { sluice } = createHouse();
  for (const wrong of [
    {},
    { grant: "" },
    { grant: "a", resource: uri },
    { principal: { issuer: "", subject: "", clientId: "app" } },
  ])
    await expect(sluice.revoke(wrong as Revocation)).rejects.toThrow(TypeError);
  const elsewhere = sluice.revoke({ resource: "other://demo/a.bin" });
  await expect(elsewhere).rejects.toMatchObject({ code: "not_found" });
});

test("settings of download URLs that cannot work are refused", () => {
  const wrong: Record<string, unknown>[] = [
    { tokens: "opaque" },
    { use: "twice" },
    { revocable: "no" },
    { revocable: false, tokens: "stored" },
    { revocable: false, use: "once" },
    { revocable: false, use: "lease" },
  ];
  for (const grant of wrong) expect(() => createHouse({ grant })).toThrow(TypeError);
  for (const ttlMs of [0, 999, 3_600_001, Number.NaN])
    expect(() => createHouse({ grant: { ttlMs } })).toThrow(RangeError);
  for (const grant of [{}, { revocable: false }, { revocable: false, use: "window" }] as const)
    expect(createHouse({ grant }).sluice.baseUris).toEqual(["files://demo/"]);
});
