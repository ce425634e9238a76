import { expect, test } from "vitest";
import type { SluiceErrorCode } from "@sluice/core";
import { withRetry, type RetryOptions, withThrottle } from "@sluice/storage/internal";
import { createManualClock, settle } from "./manual-clock.ts";
import { createScripted, failure } from "./scripted-backend.ts";

/** A backend that fails this many times, then works. */
function failing(times: number, error: Error, options: RetryOptions = {}) {
  const clock = createManualClock();
  let left = times;
  const { backend, calls, store } = createScripted(() => ({
    describe: (describe) => async (key, call) => {
      if (left-- > 0) throw error;
      return describe(key, call);
    },
  }));
  store.put("a", "a");
  return { clock, calls, patient: withRetry(backend, { clock, random: () => 0.5, ...options }) };
}

test("a retryable failure is repeated, each time after a longer wait", async () => {
  const { clock, calls, patient } = failing(3, failure("unavailable"));
  const describing = patient.describe("a");
  for (const [delay, made] of [
    [49, 1],
    [1, 2],
    [99, 2],
    [1, 3],
    [199, 3],
    [1, 4],
  ] as const) {
    await clock.advance(delay);
    expect(calls.length).toBe(made);
  }
  expect((await describing).key).toBe("a");
});

test("the last failure is the caller's", async () => {
  const error = failure("unavailable");
  const { clock, calls, patient } = failing(99, error, { maxAttempts: 3 });
  const describing = patient.describe("a");
  describing.catch(() => {});
  await clock.advance(100_000);
  await expect(describing).rejects.toBe(error);
  expect(calls.length).toBe(3);
});

test("only what is retryable is repeated", async () => {
  const codes: SluiceErrorCode[] = [
    "not_found",
    "permission_denied",
    "invalid_argument",
    "corrupt",
  ];
  for (const error of [...codes.map((code) => failure(code)), new TypeError("a mistake")]) {
    const { calls, patient } = failing(1, error);
    await expect(patient.describe("a")).rejects.toBe(error);
    expect(calls.length).toBe(1);
  }
});

test("the service's own time is waited for, and jitter comes on top of it", async () => {
  const { clock, calls, patient } = failing(1, failure("throttled", 3000));
  const describing = patient.describe("a");
  await clock.advance(3049);
  expect(calls.length).toBe(1);
  await clock.advance(1);
  await describing;
});

test("a service that asks for too long a wait is not waited for", async () => {
  const { calls, patient } = failing(1, failure("throttled", 30_000), { maxWaitMs: 29_999 });
  await expect(patient.describe("a")).rejects.toMatchObject({ retryAfterMs: 30_000 });
  expect(calls.length).toBe(1);
});

test("all calls share one budget, which successes fill again", async () => {
  const { clock, calls, patient } = failing(8, failure("unavailable"), {
    maxAttempts: 100,
    retryBudget: 3,
  });
  const first = patient.describe("a");
  first.catch(() => {});
  await clock.advance(100_000);
  await expect(first).rejects.toMatchObject({ code: "unavailable" });
  expect(calls.length).toBe(4);
  await expect(patient.describe("a")).rejects.toMatchObject({ code: "unavailable" });
  expect(calls.length).toBe(5);
  for (let success = 0; success < 11; success++) await patient.list();
  const second = patient.describe("a");
  second.catch(() => {});
  await clock.advance(100_000);
  await expect(second).rejects.toMatchObject({ code: "unavailable" });
  expect(calls.filter((call) => call === "describe a").length).toBe(7);
});

test("an abort ends the wait with its reason", async () => {
  const { clock, patient } = failing(1, failure("unavailable"));
  const caller = new AbortController();
  const describing = patient.describe("a", { signal: caller.signal });
  await settle();
  caller.abort("the reason");
  await expect(describing).rejects.toBe("the reason");
  expect(clock.waiting()).toBe(0);
});

test("a write is begun again, and each of its requests is repeated", async () => {
  const clock = createManualClock();
  const log: string[] = [];
  const failOnce = async (what: string): Promise<void> => {
    log.push(what);
    if (log.filter((entry) => entry === what).length === 1) throw failure("unavailable");
  };
  const { backend, store } = createScripted(() => ({
    write: (write) => async (key, options) => {
      await failOnce("begin");
      const writer = await write(key, options);
      return {
        ...writer,
        write: async (chunk) => {
          await options?.repeat?.(() => failOnce("part"));
          await writer.write(chunk);
        },
        commit: async () => {
          await options?.repeat?.(() => failOnce("end"));
          return writer.commit();
        },
      };
    },
  }));
  const patient = withRetry(backend, { clock, random: () => 0 });
  const writing = (async () => {
    const writer = await patient.write!("a");
    await writer.write(new Uint8Array(7));
    await writer.commit();
  })();
  await clock.advance(1);
  await writing;
  expect(log).toEqual(["begin", "begin", "part", "part", "end", "end"]);
  expect((await store.describe("a")).size).toBe(7);
});

test("the requests of writes spend the budget of reads, and pause with them", async () => {
  const clock = createManualClock();
  let requests = 0;
  const { backend, store } = createScripted(() => ({
    write: (write) => async (key, options) => ({
      ...(await write(key, options)),
      write: () =>
        options!.repeat!(async () => {
          requests++;
          throw failure("throttled", 1000);
        }),
    }),
  }));
  store.put("b", "b");
  const patient = withRetry(withThrottle(backend, { clock }), {
    clock,
    random: () => 0,
    retryBudget: 2,
  });
  const writer = await patient.write!("a");
  const writing = writer.write(new Uint8Array(1));
  writing.catch(() => {});
  await clock.advance(999);
  expect(requests).toBe(1);
  let isThrough = false;
  const reading = patient.describe("b").then(() => (isThrough = true));
  await clock.advance(0);
  expect(isThrough).toBe(false);
  await clock.advance(5000);
  await reading;
  await expect(writing).rejects.toMatchObject({ code: "throttled" });
  expect(requests).toBe(3);
});

test("a removal is repeated: an object that the first try removed is not an error to the next", async () => {
  const clock = createManualClock();
  let removals = 0;
  const { backend, store } = createScripted(() => ({
    remove: (remove) => async (key, call) => {
      await remove(key, call);
      if (removals++ === 0) throw failure("unavailable");
    },
  }));
  store.put("a", "a");
  const removing = withRetry(backend, { clock, random: () => 0 }).remove?.("a");
  await clock.advance(100);
  await removing;
  expect(removals).toBe(2);
  await expect(store.describe("a")).rejects.toMatchObject({ code: "not_found" });
});

test("resuming an object in steps is repeated, and beginning one is not", async () => {
  const clock = createManualClock();
  const asked: (string | undefined)[] = [];
  const { backend, store } = createScripted(() => ({
    writeInSteps: () => async (_key, options) => {
      asked.push(options?.id);
      throw failure("unavailable");
    },
  }));
  const { id } = await store.writeInSteps("a");
  const patient = withRetry(backend, { clock, random: () => 0, maxAttempts: 2 });
  await expect(patient.writeInSteps!("a")).rejects.toMatchObject({ code: "unavailable" });
  const goingOn = patient.writeInSteps!("a", { id });
  goingOn.catch(() => {});
  await clock.advance(100_000);
  await expect(goingOn).rejects.toMatchObject({ code: "unavailable" });
  expect(asked).toEqual([undefined, id, id]);
});
