import {
  createKeyRing,
  createSealer,
  generateKey,
  type GrantUse,
  type TokenClaims,
} from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import type { SluiceOptions } from "@sluice/server";
import type { Reply } from "@sluice/server/internal";
import { describe, expect, test } from "vitest";
import { createFailingStore } from "./failing-store.ts";
import { alice, as, bodyOf, createHouse, endpoint, headerOf, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const uri = "files://demo/a.bin";
const uses: readonly GrantUse[] = ["window", "once", "lease"];
const session = { ...alice, sessionId: "s-1" };

function setUp(options: Partial<SluiceOptions> = {}) {
  const keys = createKeyRing([generateKey()]);
  const store = createFailingStore();
  const house = createHouse({
    keys,
    stores: { ...createMemoryStores(), state: store.state },
    anonymous: true,
    ...options,
  });
  const sealer = createSealer({ keys, audience: endpoint });
  return {
    keys,
    store,
    house,
    seal: (terms: Partial<TokenClaims> = {}) =>
      sealer.seal("download", { key: "a.bin", principal: alice, ...terms }).token,
    issue: async () =>
      (await house.sluice.host.mint(
        { principal: alice, mayMint: true, maxTtlMs: 300_000 },
        "a.bin",
        (await house.storage.describe("a.bin")).etag,
      ))!.token,
  };
}

/** Every kind of request for a URL, one after another; what was sent of bytes is let go. */
async function askAll(
  house: House,
  token: string,
  headers: Record<string, string> = as(alice),
): Promise<Record<string, Reply>> {
  const etag = `"${(await house.storage.describe("a.bin")).etag}"`;
  const requests = {
    HEAD: { method: "HEAD", headers },
    "304": { headers: { ...headers, "if-none-match": etag } },
    range: { headers: { ...headers, range: "bytes=0-3" } },
    GET: { headers },
  } as const;
  const replies: Record<string, Reply> = {};
  for (const [name, request] of Object.entries(requests)) {
    const reply = await house.redeem(token, { sessionId: "s-1", ...request });
    replies[name] = reply;
    reply.transfer?.end({ outcome: "aborted", bytes: 0 });
    await reply.transfer?.source.body.cancel();
  }
  return replies;
}

const statusesOf = (replies: Record<string, Reply>): Record<string, number> =>
  Object.fromEntries(Object.entries(replies).map(([name, { status }]) => [name, status]));

const served = { HEAD: 200, "304": 304, range: 206, GET: 200 };
const refused = { HEAD: 503, "304": 503, range: 503, GET: 503 };

describe("while the store is down", () => {
  test.each([
    ...uses.map((use) => [`bound, ${use}`, { use }] as const),
    ...uses.map((use) => [`self-authenticating, ${use}`, { use, principal: undefined }] as const),
    ["of a session", { principal: session }] as const,
  ])("a sealed URL is 503 for every request, with when to come back: %s", async (_name, terms) => {
    const { house, store, seal } = setUp();
    const token = seal(terms);
    store.isDown = true;
    const replies = await askAll(house, token);
    expect(statusesOf(replies)).toEqual(refused);
    for (const reply of Object.values(replies)) {
      expect(headerOf(reply, "retry-after")).toBe("3");
      expect(reply.transfer).toBeUndefined();
    }
    store.isDown = false;
    expect((await house.redeem(token, { headers: as(alice), sessionId: "s-1" })).status).toBe(200);
  });

  test("a stored URL is 503 for every request, and works again without a restart", async () => {
    for (const use of uses) {
      const { house, store, issue } = setUp({ grant: { tokens: "stored", use } });
      const token = await issue();
      store.isDown = true;
      const replies = await askAll(house, token);
      expect(statusesOf(replies)).toEqual(refused);
      expect(headerOf(replies["GET"]!, "retry-after")).toBe("3");
      store.isDown = false;
      expect(await bodyOf(await house.redeem(token, { headers: as(alice) }))).toBe("0123456789");
    }
  });

  test("an outage uses no single-use URL up, and gives none twice", async () => {
    const { house, store, seal } = setUp();
    const token = seal({ use: "once" });
    const get = async () => {
      const reply = await house.redeem(token, { headers: as(alice) });
      await bodyOf(reply);
      return reply.status;
    };
    store.isDown = true;
    expect(await Promise.all([get(), get(), get()])).toEqual([503, 503, 503]);
    store.isDown = false;
    expect(await get()).toBe(200);
    store.isDown = true;
    expect(await get()).toBe(503);
    store.isDown = false;
    expect(await get()).toBe(404);
  });

  test("negative control: a store that grants what it cannot look up is detected by its responses", async () => {
    const { house: _real, store, ...rest } = setUp();
    const claim = (async (terms, now) =>
      store.state
        .claim(terms, now)
        .catch(() => ({ outcome: "granted", continued: false }))) as typeof store.state.claim;
    const lenient = createHouse({
      keys: rest.keys,
      stores: { ...createMemoryStores(), state: { ...store.state, claim } },
    });
    store.isDown = true;
    expect(statusesOf(await askAll(lenient, rest.seal()))).toEqual(served);
  });

  test("a store that fails in a way of its own is a fault, never bytes", async () => {
    const { store, keys, seal } = setUp();
    const claim = () => Promise.reject(new Error("ECONNRESET"));
    const house = createHouse({
      keys,
      stores: { ...createMemoryStores(), state: { ...store.state, claim } },
    });
    const broken = { HEAD: 500, "304": 500, range: 500, GET: 500 };
    expect(statusesOf(await askAll(house, seal()))).toEqual(broken);
  });

  test("places of streams are given back by what was refused", async () => {
    const { house, store, seal } = setUp({ limits: { streams: { perPrincipal: 1 } } });
    store.isDown = true;
    for (let n = 0; n < 3; n++) expect(statusesOf(await askAll(house, seal()))).toEqual(refused);
    store.isDown = false;
    expect((await house.redeem(seal(), { headers: as(alice) })).status).toBe(200);
  });

  test("nothing is withdrawn, and who asked for it hears that", async () => {
    const { house, store, seal } = setUp();
    store.isDown = true;
    for (const revocation of [{ token: seal() }, { grant: "a" }, { principal: alice }])
      await expect(house.sluice.revoke(revocation)).rejects.toMatchObject({ code: "unavailable" });
  });

  describe.each(eras)("%s era", (era) => {
    const ask = (house: House) =>
      talkTo(house.sluice)(era, "resources/stream", { params: { uri }, headers: as(alice) });

    test("no stored URL is made: busy, with when to come back, until the store is back", async () => {
      const options = { grant: { tokens: "stored" }, delivery: "downloadUrl" } as const;
      const { house, store } = setUp(options);
      store.isDown = true;
      const { message, slot } = await ask(house);
      const code = era === "modern" ? -25326 : -32603;
      const fault = { code, data: { reason: "busy", retryAfterMs: 2_500 } };
      expect(slot.fault).toMatchObject(fault);
      expect(message.error).toMatchObject(fault);
      expect(house.errors).toHaveLength(1);
      store.isDown = false;
      expect((await ask(house)).message.result.downloadUrl).toMatch(/\/streams\/[\w-]{32}$/);
    });

    test("bytes that need no URL still come, without one to go on from", async () => {
      const { house, store } = setUp({ grant: { tokens: "stored" }, delivery: "direct" });
      store.isDown = true;
      const { slot } = await ask(house);
      expect([slot.reply?.status, headerOf(slot.reply!, "link")]).toEqual([200, undefined]);
      expect(await bodyOf(slot.reply!)).toBe("0123456789");
      expect(house.errors).toHaveLength(1);
      store.isDown = false;
      const again = await ask(house);
      expect(headerOf(again.slot.reply!, "link")).toMatch(/\/streams\/[\w-]{32}>; rel="stream"$/);
      await bodyOf(again.slot.reply!);
    });

    test("sealed URLs are made as ever", async () => {
      const { house, store } = setUp({ delivery: "downloadUrl" });
      store.isDown = true;
      expect((await ask(house)).message.result.downloadUrl).toMatch(/\/streams\/v1\./);
      expect(store.asked).toBe(0);
    });
  });
});

describe("URLs that are not revocable", () => {
  const fixed = { grant: { revocable: false } } as const;

  test("work while the store is down, for every request, and never ask it", async () => {
    const { house, store, seal, issue } = setUp(fixed);
    store.isDown = true;
    for (const token of [seal(), await issue(), seal({ principal: session })])
      expect(statusesOf(await askAll(house, token))).toEqual(served);
    expect(store.asked).toBe(0);
    expect(house.errors).toEqual([]);
  });

  test("negative control: revocable ones ask it each time, and none works", async () => {
    const { house, store, seal } = setUp();
    store.isDown = true;
    expect(statusesOf(await askAll(house, seal()))).toEqual(refused);
    expect(store.asked).toBe(4);
  });

  test("still end by their time, principal, access, version and key", async () => {
    let decision: "allow" | "hide" = "allow";
    const { house, store, keys, seal } = setUp({ ...fixed, access: () => decision });
    store.isDown = true;
    const status = async (token: string, who = alice) => {
      const reply = await house.redeem(token, { method: "HEAD", headers: as(who) });
      return reply.status;
    };
    const token = seal();
    expect(await status(token)).toBe(200);
    expect(await status(token, { ...alice, subject: "mallory" })).toBe(404);
    expect(await status(seal({ now: Date.now() - 360_000 }))).toBe(410);
    expect(await status(seal({ etag: "earlier" }))).toBe(410);
    decision = "hide";
    expect(await status(token)).toBe(404);
    decision = "allow";
    keys.replace([generateKey({ kid: "k2" })]);
    expect(await status(token)).toBe(404);
  });

  test("are the bound ones alone: what is used once, leased or anybody's needs the store for HEAD and 304, too", async () => {
    for (const terms of [
      { use: "once" },
      { use: "lease" },
      { use: "window", principal: undefined },
      { use: "lease", principal: undefined },
    ]) {
      const { house, store, seal } = setUp(fixed);
      const token = seal(terms as Partial<TokenClaims>);
      store.isDown = true;
      expect(statusesOf(await askAll(house, token))).toEqual(refused);
      store.isDown = false;
      expect((await askAll(house, token))["HEAD"]!.status).toBe(200);
    }
  });

  test("cannot be withdrawn, and the server says so", async () => {
    const { house, seal } = setUp(fixed);
    for (const revocation of [{ token: seal() }, { principal: alice }, { resource: uri }])
      await expect(house.sluice.revoke(revocation)).rejects.toMatchObject({ code: "unsupported" });
  });

  test("outlive the session that they are bound to, but work for nobody else", async () => {
    const { house, seal } = setUp(fixed);
    const token = seal({ principal: session });
    const ask = (sessionId: string) => house.redeem(token, { headers: as(alice), sessionId });
    await house.sluice.endSession("s-1");
    expect(await bodyOf(await ask("s-1"))).toBe("0123456789");
    expect((await ask("s-2")).status).toBe(404);
  });
});
