// @module-tag slow
import { setTimeout } from "node:timers/promises";
import { withResumableFetch } from "@sluice/resume/client";
import type { FetchLike } from "@sluice/client";
import { formatKey, generateKey, SluiceError } from "@sluice/core";
import type { EventStore } from "@sluice/state";
import { createMemoryEventStore } from "@sluice/state/internal";
import { describe, expect, onTestFinished, test } from "vitest";
import { startCutter } from "../bed/cutter.ts";
import { startProgram } from "../bed/program.ts";
import type { ServeSurveysSettings } from "../bed/programs/serve-surveys.ts";
import { hasRedis, startRedis } from "../bed/redis.ts";
import { connectV1, connectV2, createResuming, surveyOf } from "../bed/resuming.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
/** Milliseconds that a survey works before each question and its end, four times in all. */
const workMs = isDeep ? 7_500 : 10;
const patient = { retryMs: 10, maxRetryMs: 50, maxAttempts: 200 };

/**
 * A store that a process loses for good at its n-th write, before or after that write is done: the
 * process can do nothing more, as if it had died.
 */
function mortal(store: EventStore, writes: number, { before }: { before: boolean }) {
  let left = writes;
  let onDeath = (): void => {};
  const dead = (): never => {
    throw new SluiceError("unavailable", "this process is dead");
  };
  const write =
    <Args extends unknown[], Result>(call: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      left -= 1;
      if (left < 0) return dead();
      if (left > 0) return call(...args);
      if (!before) await call(...args);
      onDeath();
      return dead();
    };
  const mortalStore: EventStore = {
    ...store,
    open: write((...args: Parameters<EventStore["open"]>) => store.open(...args)),
    append: write((...args: Parameters<EventStore["append"]>) => store.append(...args)),
    answer: write((...args: Parameters<EventStore["answer"]>) => store.answer(...args)),
    hold: async (...args) => (left > 0 ? store.hold(...args) : dead()),
    claim: async (...args) => (left > 0 ? store.claim(...args) : dead()),
    read: async (...args) => (left > 0 ? store.read(...args) : dead()),
  };
  return { store: mortalStore, death: new Promise<void>((resolve) => void (onDeath = resolve)) };
}

/** Two processes on one store, the first of which dies at its n-th write. */
async function dying(writes: number, options: { before: boolean; reruns: boolean }) {
  const shared = createMemoryEventStore();
  const keys = [generateKey()];
  const settings = { sluice: { keys }, resume: { leaseMs: 100 }, reruns: options.reruns };
  const first = mortal(shared, writes, options);
  const a = createResuming({ ...settings, store: first.store });
  const b = createResuming({ ...settings, store: shared });
  let now = a;
  void first.death.then(() => (now = b));
  const fetch: FetchLike = (input, init) => now.fetch(input, init);
  onTestFinished(async () => {
    await a.close();
    await b.close();
  });
  return { fetch, a, b };
}

describe("a server that dies", () => {
  // a survey writes: open, then for each question its progress, it and its answer, then the result
  test.each(isDeep ? [2, 3, 4, 5, 6, 7, 8, 9, 10, 11] : [2, 7, 11])(
    "is replaced after write %i, before or after it is kept: another one runs the tool again, and nothing is lost or doubled",
    async (writes) => {
      for (const before of [true, false]) {
        const { fetch, a, b } = await dying(writes, { before, reruns: true });
        const client = await (before ? connectV1 : connectV2)({
          fetch: withResumableFetch(fetch, patient),
        });
        const { asked, progress, text } = surveyOf("a");
        expect(await client.survey("a")).toBe(text);
        expect([client.asked, client.progress]).toEqual([asked, progress]);
        const isOver = writes === 11 && !before;
        expect([a.starts(), b.starts()]).toEqual([1, isOver ? 0 : 1]);
        await client.close();
      }
    },
  );

  test("ends what may not run twice with an error that says to send it again", async () => {
    const { fetch, b } = await dying(4, { before: false, reruns: false });
    const client = await connectV2({ fetch: withResumableFetch(fetch, patient) });
    await expect(client.survey("a")).rejects.toThrow("Interrupted, send the request again");
    expect(b.starts()).toBe(0);
    await client.close();
  });
});

test("a tool that does not ask the same again is stopped, not continued", async () => {
  let times = 0;
  const random = (
    mcp: Parameters<NonNullable<Parameters<typeof createResuming>[0]>["register"] & {}>[0],
  ) =>
    void mcp.registerTool("moody", {}, async (ctx) => {
      times += 1;
      const question = {
        message: `mood ${times}`,
        requestedSchema: { type: "object" as const, properties: {} },
      };
      await ctx.mcpReq.elicitInput(question, { relatedRequestId: ctx.mcpReq.id });
      return { content: [{ type: "text", text: "done" }] };
    });
  const shared = createMemoryEventStore();
  const keys = [generateKey()];
  const settings = { sluice: { keys }, resume: { leaseMs: 100 }, reruns: true, register: random };
  const first = mortal(shared, 2, { before: false });
  const a = createResuming({ ...settings, store: first.store });
  const b = createResuming({ ...settings, store: shared });
  let now = a;
  void first.death.then(() => (now = b));
  const client = await connectV2({
    fetch: withResumableFetch((input, init) => now.fetch(input, init), patient),
  });
  await expect(client.call("moody")).rejects.toThrow("Interrupted");
  expect(b.errors.join()).toContain("cannot be run again");
  await client.close();
  await a.close();
  await b.close();
});

describe.skipIf(!hasRedis)("with the streams in Redis", () => {
  // four servers at a time: each dies five times, with fifty surveys of 30 s at work
  const { servers, deaths, surveys } = isDeep
    ? { servers: 4, deaths: 5, surveys: 50 }
    : { servers: 1, deaths: 1, surveys: 3 };
  const runs = servers * deaths * surveys;

  test(`${runs} surveys complete through the death of their server by SIGKILL, each at a place of its own`, async () => {
    await using redis = await startRedis();
    const completed = await Promise.all(
      Array.from({ length: servers }, (_, n) =>
        dieOften({ redis: redis.path, name: `server ${n}`, deaths, surveys }),
      ),
    );
    expect(completed.reduce((sum, count) => sum + count, 0)).toBe(runs);
  });
});

interface Deaths {
  /** Socket of the Redis. */
  readonly redis: string;
  readonly name: string;
  readonly deaths: number;
  /** How many are begun before each death. */
  readonly surveys: number;
}

/** Kills a server again and again, and starts it anew. Gives how many surveys lost and doubled nothing. */
async function dieOften({ redis, name, deaths, surveys }: Deaths): Promise<number> {
  let port = 0;
  const front = await startCutter(() => port);
  onTestFinished(() => front.close());
  const settings: ServeSurveysSettings = {
    redis,
    endpoint: `${front.origin}/mcp`,
    keys: formatKey(generateKey()),
    workMs,
    leaseMs: isDeep ? 2_000 : 200,
    reruns: true,
  };
  const begin = async () => {
    const server = await startProgram<{ port: number }>("serve-surveys", settings);
    ({ port } = server.hello);
    return server;
  };
  let completed = 0;
  for (let death = 0; death < deaths; death++) {
    await using doomed = await begin();
    const dead = new Promise((resolve) => void doomed.process.once("exit", resolve));
    const begun = new Set<string>();
    let isAsked = false;
    const killInTheMiddle = (): void => {
      if (isAsked && begun.size === surveys) doomed.process.kill("SIGKILL");
    };
    const surveying = Array.from({ length: surveys }, async (_, n) => {
      const survey = `${name}, death ${death}, survey ${n}`;
      // the last ones begin shortly before the first one is asked its second question
      await setTimeout((n / surveys) * 1.5 * workMs);
      const client = await connectV2({
        url: settings.endpoint,
        fetch: withResumableFetch(
          tellingOfLinks(globalThis.fetch, () => {
            begun.add(survey);
            killInTheMiddle();
          }),
          { retryMs: 50, maxRetryMs: 500, maxAttempts: 200 },
        ),
        async answer(message) {
          if (n === 0 && message.endsWith("question 2")) {
            isAsked = true;
            killInTheMiddle();
            await dead;
          }
          return `answer to ${message}`;
        },
      });
      const { asked, progress, text } = surveyOf(survey);
      expect(await client.survey(survey, { timeout: 180_000 })).toBe(text);
      expect([client.asked, client.progress]).toEqual([asked, progress]);
      await client.close();
      completed += 1;
    });
    const surveyed = Promise.all(surveying);
    await Promise.race([dead, surveyed]);
    const over = completed % surveys;
    await using risen = await begin();
    await surveyed;
    const { starts, errors } = await risen.ask<{ starts: number; errors: string[] }>("state");
    expect(errors).toEqual([]);
    // nothing runs twice there, and what was at work runs again
    expect(starts).toBeGreaterThan(0);
    expect(starts).toBeLessThanOrEqual(surveys - over);
    if (isDeep) console.log(`${name}, death ${death}: ${starts} of ${surveys} surveys ran again`);
  }
  return completed;
}

/** Tells when a client has got a call's link, without which no client can pick up its stream. */
function tellingOfLinks(fetch: FetchLike, onLink: () => void): FetchLike {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (typeof init?.body === "string" && init.body.includes('"tools/call"')) onLink();
    return response;
  };
}
