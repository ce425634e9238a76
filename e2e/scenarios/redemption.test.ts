// @module-tag slow
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { bytesOf } from "../bed/content.ts";
import { startFleet, type Fleet, type Member } from "../bed/fleet.ts";
import { expectSurvival, surviveOutages } from "../bed/outages.ts";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { hasRedis, startRedis, type RedisServer } from "../bed/redis.ts";
import { startSite } from "../bed/site.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const content = bytesOf(50_000, "secret plans");
const files = { "plans.bin": content };

type Place = (link: string) => Promise<RawAnswer>;

/** Sends so many requests at once, spread over the places. Requests without an answer are left out. */
async function redeemAtOnce(count: number, places: readonly Place[], link: string) {
  const sent = Array.from({ length: count }, (_, n) => places[n % places.length]!(link));
  const settled = await Promise.allSettled(sent);
  return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

/** One whole body for one of them, and for all others the answer to what is unknown. */
function expectOneBody(answers: readonly RawAnswer[], count: number): void {
  const [body, ...further] = answers.filter(({ status }) => status === 200);
  expect(body?.bytes.equals(content)).toBe(true);
  expect(further).toEqual([]);
  expect(answers.filter(({ status }) => status === 404)).toHaveLength(count - 1);
}

describe.skipIf(!hasRedis)("a single-use URL of three processes that share a Redis", () => {
  const { rounds, count } = isDeep ? { rounds: 100, count: 1_000 } : { rounds: 2, count: 30 };
  const timeoutMs = 10_000;
  let redis: RedisServer;
  let fleet: Fleet;
  let places: Place[] = [];

  beforeAll(async () => {
    redis = await startRedis({ durable: true });
    const shared = { path: redis.path, durable: true, timeoutMs };
    fleet = await startFleet({ files, size: 3, redis: shared, grant: { use: "once" } });
    places = fleet.members.map((member) => (link) => member.get(link));
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
    await redis?.[Symbol.asyncDispose]();
  });

  test(`gives its bytes to one of ${count} that come at the same time, in each of ${rounds} rounds`, async () => {
    for (let round = 0; round < rounds; round++) {
      const link = await fleet.members[round % 3]!.link("plans.bin");
      expectOneBody(await redeemAtOnce(count, places, link), count);
    }
  });

  test("gives them once while Redis is stopped and started under load, and the processes go on by themselves", async () => {
    const { cycles, clients } = isDeep ? { cycles: 5, clients: 12 } : { cycles: 1, clients: 1 };
    const survival = await surviveOutages(fleet, redis, {
      key: "plans.bin",
      content,
      cycles,
      clients,
      hangs: false,
    });
    expectSurvival(survival);
  });

  test("gives them to one at most when a process dies in the middle of its claims, and the others go on", async () => {
    const [first, second, doomed] = fleet.members as [Member, Member, Member];
    const link = await first.link("plans.bin");
    redis.freeze();
    const claims = redeemAtOnce(count, places, link);
    await vi.waitFor(
      async () => {
        for (const member of fleet.members)
          expect((await member.state()).waiting).toBeGreaterThanOrEqual(Math.floor(count / 3));
      },
      { timeout: 30_000 },
    );
    doomed.process.kill("SIGKILL");
    redis.thaw();
    const statuses = (await claims).map(({ status }) => status);
    expect(statuses.length).toBeGreaterThanOrEqual(Math.floor((count * 2) / 3));
    expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(1);
    expect(new Set([200, 404, ...statuses])).toEqual(new Set([200, 404]));
    // the grant is spent, whichever request claimed it
    for (const member of [first, second]) expect((await member.get(link)).status).toBe(404);
    const next = await second.link("plans.bin");
    expectOneBody(await redeemAtOnce(count, places.slice(0, 2), next), count);
  });
});

/** The usual mistake, at its worst: looks, and writes only when another one has looked as well. */
function createLookingStore(): StateStore {
  const store = createMemoryStateStore();
  let lookers: (() => void)[] = [];
  return {
    ...store,
    async claim(terms, now) {
      const look = await store.claim({ ...terms, use: "window" }, now);
      await new Promise<void>((resolve) => {
        lookers.push(resolve);
        if (lookers.length < 2) return;
        for (const goOn of lookers) goOn();
        lookers = [];
      });
      await store.claim(terms, now);
      return look;
    },
  };
}

test("a store that looks first and writes later gives two bodies, which is noticed", async () => {
  await using site = await startSite({
    files,
    sluice: {
      delivery: "downloadUrl",
      grant: { use: "once" },
      stores: { ...createMemoryStores(), state: createLookingStore() },
    },
  });
  const params = { uri: "files://site/plans.bin" };
  const { message } = await call(site.url, "resources/stream", params, { streaming: {} });
  const answers = await redeemAtOnce(
    2,
    [(link) => send("GET", link)],
    String(message?.result?.["downloadUrl"]),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(() => expectOneBody(answers, 2)).toThrow("expected");
});
