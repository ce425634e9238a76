import { createKeyRing, generateKey } from "@sluice/core";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend } from "@sluice/storage";
import type { SluiceOptions } from "@sluice/server";
import { tagOf, type Reply } from "@sluice/server/internal";
import { afterEach, describe, expect, test, vi } from "vitest";
import { alice, bodyOf, createHouse, headerOf } from "./redeeming.ts";

afterEach(() => vi.useRealTimers());

const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
const caller = { header: () => undefined };
const forms = ["stored", "sealed"] as const;

function linking(tokens: (typeof forms)[number], options: Partial<SluiceOptions> = {}) {
  const { sluice, records } = createHouse({
    links: { tokens },
    rates: { failedRedemptions: false },
    storage,
    principal: () => alice,
    ...options,
  } as Partial<SluiceOptions>);
  return {
    sluice,
    records,
    make: async (more: object = {}) => {
      const { url } = await sluice.link(uri, { caller, ...more });
      return url.slice(url.lastIndexOf("/") + 1);
    },
    open: (token: string): Promise<Reply> =>
      sluice.host.redeem({ kind: "link", method: "GET", token, header: () => undefined }),
  };
}

/** Everything of a reply that a client sees. */
const seen = ({ status, headers, text }: Reply) => JSON.stringify({ status, headers, text });

describe.each(forms)("a link with a %s token", (form) => {
  test(
    "opens by its own spelling alone: no character may be another, be missing, come twice or change places",
    { tags: "slow" },
    async () => {
      const { make, open } = linking(form);
      const token = await make();
      const missing = seen(await open("A".repeat(32)));
      const altered = token
        .split("")
        .flatMap((char, at) => [
          token.slice(0, at) + (char === "A" ? "B" : "A") + token.slice(at + 1),
          token.slice(0, at) + token.slice(at + 1),
          token.slice(0, at) + char + token.slice(at),
          token.slice(0, at) + token.slice(at + 2, at + 3) + token.slice(at + 1),
        ]);
      const others = [
        `${token}=`,
        ` ${token}`,
        token.toUpperCase(),
        encodeURIComponent(`${token}/`),
        "",
      ];
      for (const wrong of [...altered, ...others].filter((each) => each !== token))
        expect(seen(await open(wrong))).toBe(missing);
      expect((await open(token)).status).toBe(200);
    },
  );

  test("is good at its own server alone", async () => {
    const shared = { keys: createKeyRing([generateKey()]), stores: createMemoryStores() };
    const one = linking(form, shared);
    const other = linking(form, { ...shared, endpoint: "https://other.example.com/mcp" });
    const token = await one.make();
    expect((await other.open(token)).status).toBe(404);
    expect((await one.open(token)).status).toBe(200);
  });

  test("is over by its time, and says then what a made-up one says", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { make, open } = linking(form);
    const token = await make({ ttlMs: 60_000 });
    const missing = seen(await open("A".repeat(32)));
    vi.setSystemTime(Date.now() + 60_000);
    expect((await open(token)).status).toBe(200);
    vi.setSystemTime(Date.now() + 6_000);
    expect(seen(await open(token))).toBe(missing);
  });

  test("tells nothing of whether it is foreign, revoked, used, hidden, denied, or of a thing that is gone", async () => {
    let decision: "allow" | "hide" | "deny" = "allow";
    const files = createMemoryBackend({ "a.bin": "0123456789" });
    const { sluice, make, open } = linking(form, { storage: files, access: () => decision });
    const missing = seen(await open("A".repeat(32)));
    const revoked = await make();
    await sluice.revoke({ token: revoked });
    expect(seen(await open(revoked))).toBe(missing);
    const once = await make({ use: "once" });
    await bodyOf(await open(once));
    expect(seen(await open(once))).toBe(missing);
    const token = await make();
    for (decision of ["hide", "deny"] as const) expect(seen(await open(token))).toBe(missing);
    decision = "allow";
    await files.remove("a.bin");
    expect(seen(await open(token))).toBe(missing);
  });

  test("tells a browser in words that it is over, and every other client in a problem", async () => {
    const { sluice, make } = linking(form);
    const revoked = await make();
    await sluice.revoke({ token: revoked });
    const open = (token: string, accept: string) =>
      sluice.host.redeem({
        kind: "link",
        method: "GET",
        token,
        header: (name) => (name === "accept" ? accept : undefined),
      });
    const browser = await open(revoked, "text/html,application/xhtml+xml,*/*;q=0.8");
    expect([browser.status, headerOf(browser, "content-type")]).toEqual([
      404,
      "text/html; charset=utf-8",
    ]);
    expect(browser.text).toContain("Ask for a new one.");
    expect(headerOf(browser, "content-length")).toBe(String(browser.text!.length));
    expect(seen(browser)).toBe(seen(await open("A".repeat(32), "text/html")));
    const other = await open(revoked, "*/*");
    expect(headerOf(other, "content-type")).toBe("application/problem+json");
    expect(JSON.parse(other.text!)).toMatchObject({
      status: 404,
      detail: expect.stringContaining("Ask for a new one"),
    });
    expect(seen(other)).toBe(seen(await open("A".repeat(32), "*/*")));
  });

  test("gives its bytes to one of many that use it once at the same moment", async () => {
    const { make, open } = linking(form, { limits: { streams: { perPrincipal: 100 } } });
    const token = await make({ use: "once" });
    const replies = await Promise.all(Array.from({ length: 100 }, () => open(token)));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(replies.filter(({ status }) => status === 404)).toHaveLength(99);
  });

  test("names neither the resource nor the user, and holds their claims for no reader of URL and store", async () => {
    const kept: string[] = [];
    const memory = createMemoryStateStore();
    const state: StateStore = {
      ...memory,
      put(id, record, terms) {
        kept.push(id, Buffer.from(record).toString("latin1"), JSON.stringify(terms));
        return memory.put(id, record, terms);
      },
    };
    const claims = { role: "a role that is secret" };
    const { make, open } = linking(form, {
      stores: { ...createMemoryStores(), state },
      principal: () => ({ ...alice, claims }),
    });
    const token = await make();
    expect((await open(token)).status).toBe(200);
    const decoded = [token, ...kept].flatMap((text) => [
      text,
      Buffer.from(text.replace(/^v1\...\./, ""), "base64url").toString("latin1"),
    ]);
    for (const text of decoded)
      for (const secret of ["a.bin", alice.subject, alice.issuer, claims.role])
        expect(text).not.toContain(secret);
    for (const text of kept) expect(text).not.toContain(token);
  });

  test("is not bound to a version that is gone: the answer says that it changed, and no byte of another version goes out", async () => {
    const files = createMemoryBackend({ "a.bin": "0123456789" });
    const { make, open } = linking(form, { storage: files });
    const token = await make();
    files.put("a.bin", "another version");
    const reply = await open(token);
    expect([reply.status, await bodyOf(reply)]).toEqual([410, expect.stringContaining("changed")]);
  });

  test("acts with the claims of the time when a rule gave its resource, and never with more", async () => {
    const claims: { role?: string } = { role: "doctor" };
    const { make, open } = linking(form, {
      principal: () => ({ ...alice, claims: { ...claims } }),
      access: (who) => (who?.claims?.["role"] === "doctor" ? "allow" : "hide"),
    });
    const token = await make();
    delete claims.role;
    expect((await open(token)).status).toBe(200);
    await expect(make()).rejects.toThrow(/No such resource/);
  });
});

test("a store that is down makes no link and opens none", async () => {
  const memory = createMemoryStateStore();
  let isDown = false;
  const fails = <Given extends readonly unknown[], Value>(
    call: (...given: Given) => Promise<Value>,
  ) =>
    ((...given: Given) =>
      isDown ? Promise.reject(new Error("down")) : call(...given)) as typeof call;
  const state: StateStore = {
    ...memory,
    put: fails(memory.put.bind(memory)),
    get: fails(memory.get.bind(memory)),
    claim: fails(memory.claim.bind(memory)),
  };
  const { make, open } = linking("stored", { stores: { ...createMemoryStores(), state } });
  const token = await make();
  isDown = true;
  expect((await open(token)).status).toBeGreaterThanOrEqual(500);
  await expect(make()).rejects.toThrow(/Not possible at the moment/);
  isDown = false;
  expect((await open(token)).status).toBe(200);
});

test("a share of the store that is full of links makes no more for its owner, and others go on", async () => {
  const state = createMemoryStateStore({ records: { perProcess: 40, perPrincipal: 4 } });
  let subject = "alice";
  const { make } = linking("stored", {
    stores: { ...createMemoryStores(), state },
    principal: () => ({ ...alice, subject }),
  });
  for (let n = 0; n < 4; n++) await make();
  await expect(make()).rejects.toMatchObject({ code: "throttled" });
  subject = "bob";
  expect(await make()).toHaveLength(32);
});

test("claims that fit into no URL are refused in words, and nothing is made", async () => {
  const claims = { groups: Array.from({ length: 400 }, (_, n) => `group-${n}`) };
  const principal = () => ({ ...alice, claims });
  await expect(linking("sealed", { principal }).make()).rejects.toMatchObject({
    code: "too_large",
    message: expect.stringContaining("claims"),
  });
  expect(await linking("stored", { principal }).make()).toHaveLength(32);
});

/** Makes a link for claims of this many letters, and opens it. */
async function openWith(tokens: (typeof forms)[number], letters: string): Promise<string> {
  const principal = () => ({ ...alice, claims: { group: letters } });
  const { make, open } = linking(tokens, { principal });
  try {
    const token = await make();
    return `${token.length < 4_100 ? "short" : "long"} ${(await open(token)).status}`;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test.each([
  ["stored", 15_000],
  ["sealed", 2_400],
] as const)(
  "%s: every link that is made opens, whatever letters its claims have",
  async (form, most) => {
    expect(await openWith(form, "a".repeat(most))).toBe("short 200");
    for (const letter of ["é", "部", "😀"]) {
      expect(await openWith(form, letter.repeat(most / 5))).toBe("short 200");
      expect(await openWith(form, letter.repeat(most / letter.length))).toBe("too_large");
    }
  },
);

test("a record of the store opens by its own token alone", async () => {
  const memory = createMemoryStateStore();
  const records: Uint8Array[] = [];
  let swapped: Uint8Array | undefined;
  const state: StateStore = {
    ...memory,
    put(id, record, terms) {
      if (id.startsWith("token ")) records.push(record);
      return memory.put(id, record, terms);
    },
    get: async (id, now) => swapped ?? memory.get(id, now),
  };
  const { sluice, make, open } = linking("stored", { stores: { ...createMemoryStores(), state } });
  const token = await make();
  await sluice.link("files://demo/b.bin", { caller });
  swapped = records[1]!;
  expect((await open(token)).status).toBe(404);
  swapped = records[0]!;
  expect((await open(token)).status).toBe(200);
});

test("requests and places count for the minter, whichever client opens the link", async () => {
  const counted: string[] = [];
  const consume = async (key: string) => void counted.push(key);
  const { make, open } = linking("stored", {
    limits: { streams: { perPrincipal: 1 } },
    rates: { failedRedemptions: false, requests: { perPrincipal: { consume } } },
  });
  const token = await make();
  const first = await open(token);
  expect((await open(token)).status).toBe(429);
  await bodyOf(first);
  expect((await open(token)).status).toBe(200);
  expect(counted).toEqual(Array.from({ length: 4 }, () => tagOf(alice)));
});

test("bytes of a link are for no shared cache, name no referrer, and run nowhere", async () => {
  const { make, open } = linking("stored");
  const reply = await open(await make());
  expect(headerOf(reply, "cache-control")).toBe("private, no-store, no-transform");
  expect(headerOf(reply, "referrer-policy")).toBe("no-referrer");
  expect(headerOf(reply, "content-security-policy")).toContain("sandbox");
  expect(headerOf(reply, "x-content-type-options")).toBe("nosniff");
});

test("guesses from one address are slowed down, and a right link from another one opens", async () => {
  const { sluice, make, open } = linking("stored", { rates: {} });
  const token = await make();
  const guess = (address: string) =>
    sluice.host.redeem({
      kind: "link",
      method: "GET",
      token: Buffer.from(crypto.getRandomValues(new Uint8Array(24))).toString("base64url"),
      header: () => undefined,
      address,
    });
  const statuses = await Promise.all(Array.from({ length: 60 }, () => guess("192.0.2.1")));
  expect(statuses.filter(({ status }) => status === 404).length).toBeLessThanOrEqual(20);
  expect(statuses.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(40);
  expect((await guess("192.0.2.2")).status).toBe(404);
  expect((await open(token)).status).toBe(200);
});
