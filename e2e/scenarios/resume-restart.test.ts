import { withResume } from "@sluice/client/resume";
import type { FetchLike } from "@sluice/client";
import {
  createMemoryEventStore,
  formatKey,
  generateKey,
  SluiceError,
  type EventStore,
} from "@sluice/core";
import { describe, expect, onTestFinished, test } from "vitest";
import { startCutter } from "../bed/cutter.ts";
import { startProgram } from "../bed/program.ts";
import type { ServeSurveysSettings } from "../bed/programs/serve-surveys.ts";
import { hasRedis, startRedis } from "../bed/redis.ts";
import { connectV1, connectV2, createResuming, surveyOf } from "../bed/resuming.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const patient = { retryMs: 10, maxRetryMs: 50, maxTries: 200 };

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
    "at write %i, before or after it is kept: another one runs the tool again, and nothing is lost or doubled",
    async (writes) => {
      for (const before of [true, false]) {
        const { fetch, a, b } = await dying(writes, { before, reruns: true });
        const client = await (before ? connectV1 : connectV2)({
          fetch: withResume(fetch, patient),
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
    const client = await connectV2({ fetch: withResume(fetch, patient) });
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
    fetch: withResume((input, init) => now.fetch(input, init), patient),
  });
  await expect(client.call("moody")).rejects.toThrow("Interrupted");
  expect(b.errors.join()).toContain("cannot be run again");
  await client.close();
  await a.close();
  await b.close();
});

describe.skipIf(!hasRedis)("with the streams in Redis", () => {
  const runs = isDeep ? 20 : 1;

  test(`a survey completes through the death of its server by SIGKILL, ${runs} times`, async () => {
    await using redis = await startRedis();
    let port = 0;
    const front = await startCutter(() => port);
    onTestFinished(() => front.close());
    const endpoint = `${front.origin}/mcp`;
    const settings: ServeSurveysSettings = {
      redis: redis.path,
      endpoint,
      keys: formatKey(generateKey()),
      workMs: isDeep ? 1_000 : 10,
      leaseMs: 200,
      reruns: true,
    };
    const begin = () => startProgram<{ port: number }>("serve-surveys", settings);
    for (let run = 0; run < runs; run++) {
      await using a = await begin();
      await using b = await begin();
      port = a.hello.port;
      const client = await connectV2({
        url: endpoint,
        fetch: withResume(globalThis.fetch, patient),
        // dies while the client thinks about the second question
        answer(message) {
          if (message.endsWith("question 2")) {
            a.process.kill("SIGKILL");
            port = b.hello.port;
          }
          return `answer to ${message}`;
        },
      });
      const { asked, progress, text } = surveyOf(`run ${run}`);
      expect(await client.survey(`run ${run}`)).toBe(text);
      expect([client.asked, client.progress]).toEqual([asked, progress]);
      expect(await b.ask("state")).toEqual({ starts: 1, errors: [] });
      await client.close();
    }
  });
});
