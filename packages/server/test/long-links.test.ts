// Links that live for days, because their author says so: what was withdrawn does not come back.
import { createMemoryStores, type Stores } from "@sluice/state";
import type { LinkRules, SluiceOptions } from "@sluice/server";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { alice, createHouse } from "./redeeming.ts";

const uri = "files://demo/a.bin";
const hourMs = 3_600_000;
const weekMs = 7 * 24 * hourMs;
const caller = { header: () => undefined };

// the life of a link is in whole seconds
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.now() }));
afterEach(() => void vi.useRealTimers());

/** Stores as processes share them. */
function sharedStores(): Stores {
  const stores = createMemoryStores();
  return { ...stores, state: { ...stores.state, shared: true } };
}

function linking(links: LinkRules, options: Partial<SluiceOptions> = {}) {
  const { sluice } = createHouse({
    links,
    stores: sharedStores(),
    principal: () => alice,
    ...options,
  } as Partial<SluiceOptions>);
  return {
    sluice,
    /** Life of a link in milliseconds. */
    lifeOf: async (more: object = {}) => {
      const madeAt = Math.floor(Date.now() / 1_000) * 1_000;
      return (await sluice.link(uri, { caller, ...more })).expiresAt - madeAt;
    },
    statusOf: async (url: string) =>
      (
        await sluice.host.redeem({
          kind: "link",
          method: "HEAD",
          token: url.slice(url.lastIndexOf("/") + 1),
          header: () => undefined,
        })
      ).status,
  };
}

describe.each(["stored", "sealed"] as const)("a %s link of a week", (tokens) => {
  const ways: Readonly<
    Record<
      string,
      (
        sluice: ReturnType<typeof linking>["sluice"],
        link: { readonly url: string; readonly id: string },
      ) => Promise<void>
    >
  > = {
    token: (sluice, { url }) => sluice.revoke({ token: url.split("/").at(-1)! }),
    id: (sluice, { id }) => sluice.revoke({ grant: id }),
    principal: (sluice) => sluice.revoke({ principal: alice }),
    resource: (sluice) => sluice.revoke({ resource: uri }),
    session: (sluice) => sluice.endSession("s-1"),
  };

  test.each(Object.keys(ways))("stays withdrawn by its %s to its end", async (way) => {
    const start = Date.now();
    const { sluice, statusOf } = linking({ maxTtlMs: weekMs, tokens });
    const link = await sluice.link(uri, {
      caller: { ...caller, sessionId: "s-1" },
      ttlMs: weekMs,
    });
    // more of the session, later and for less long
    vi.setSystemTime(start + hourMs);
    await sluice.link(uri, { caller: { ...caller, sessionId: "s-1" } });
    vi.setSystemTime(start + 24 * hourMs);
    expect(await statusOf(link.url)).toBe(200);
    await ways[way]!(sluice, link);
    for (const afterMs of [24 * hourMs, 26 * hourMs, 100 * hourMs, weekMs - 2_000]) {
      vi.setSystemTime(start + afterMs);
      expect(await statusOf(link.url), `after ${afterMs / hourMs} h`).toBe(404);
    }
  });

  test("opens to its end, and not beyond, if nothing withdraws it", async () => {
    const start = Date.now();
    const { sluice, statusOf } = linking({ maxTtlMs: weekMs, tokens });
    const { url, expiresAt } = await sluice.link(uri, { caller, ttlMs: weekMs });
    vi.setSystemTime(start + weekMs - 2_000);
    expect(await statusOf(url)).toBe(200);
    vi.setSystemTime(expiresAt + 5_000);
    expect(await statusOf(url)).toBe(404);
  });

  test("ends with the access token of its caller", async () => {
    const { sluice } = linking({ maxTtlMs: weekMs, tokens });
    const expiresAt = Math.floor(Date.now() / 1_000) + 60;
    const authInfo = { token: "t", clientId: "c", scopes: [], expiresAt };
    const link = await sluice.link(uri, { caller: { ...caller, authInfo }, ttlMs: weekMs });
    expect(link.expiresAt).toBeLessThanOrEqual(expiresAt * 1_000);
  });
});

test.each<[LinkRules, number]>([
  [{}, 900_000],
  [{ maxTtlMs: weekMs }, 900_000],
  [{ ttlMs: hourMs, maxTtlMs: weekMs }, hourMs],
  [{ maxTtlMs: 60_000 }, 60_000],
])("links of %o live for %i ms unless sluice.link is told", async (rules, lifeMs) => {
  expect(await linking(rules).lifeOf()).toBe(lifeMs);
});

test("sluice.link may be told up to links.maxTtlMs", async () => {
  const { lifeOf } = linking({ maxTtlMs: 2 * hourMs });
  expect(await lifeOf({ ttlMs: 2 * hourMs })).toBe(2 * hourMs);
  await expect(lifeOf({ ttlMs: 2 * hourMs + 1 })).rejects.toThrow(
    new RangeError(
      "sluice: the ttlMs of links is a number from 1000 to 7200000; links.maxTtlMs is its bound",
    ),
  );
});

test("a link for a bearer token that nothing verified lives for five minutes", async () => {
  const { lifeOf } = linking(
    { maxTtlMs: weekMs },
    {
      principal: undefined as never,
      anonymous: true,
    },
  );
  const header = (name: string) => (name === "authorization" ? "Bearer invented" : undefined);
  expect(await lifeOf({ caller: { header }, ttlMs: weekMs })).toBe(300_000);
});

test.each<[LinkRules, string]>([
  [{ maxTtlMs: weekMs + 1 }, "links.maxTtlMs is a number from 1000 to 604800000"],
  [{ maxTtlMs: 999 }, "links.maxTtlMs is a number from 1000"],
  [{ maxTtlMs: NaN }, "links.maxTtlMs is a number from 1000"],
  [{ ttlMs: hourMs }, "from 1000 to 900000; links.maxTtlMs is its bound"],
  [{ ttlMs: 2 * hourMs, maxTtlMs: hourMs }, "from 1000 to 3600000; links.maxTtlMs is its bound"],
])("links of %o are a RangeError", (rules, sentence) => {
  expect(() => linking(rules)).toThrow(RangeError);
  expect(() => linking(rules)).toThrow(sentence);
});

test("sealed links that outlast the memory of what was withdrawn are a TypeError", () => {
  const stores = createMemoryStores();
  const start = (rules: LinkRules, given: Stores | undefined) => () =>
    linking(rules, { stores: given } as Partial<SluiceOptions>);
  for (const given of [stores, undefined])
    expect(start({ maxTtlMs: hourMs, tokens: "sealed" }, given)).toThrow(
      new TypeError(
        "createSluice: sealed links of more than 15 minutes would outlast what this process remembers of those that were withdrawn: " +
          'pass stores that outlast it, such as createRedisStores, or links.tokens: "stored"',
      ),
    );
  expect(start({ maxTtlMs: 900_000, tokens: "sealed" }, stores)).not.toThrow();
  expect(start({ maxTtlMs: hourMs, tokens: "stored" }, stores)).not.toThrow();
  expect(start({ maxTtlMs: hourMs, tokens: "sealed" }, sharedStores())).not.toThrow();
});
