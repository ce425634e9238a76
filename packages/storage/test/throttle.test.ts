import { expect, test } from "vitest";
import { withThrottle } from "@sluice/storage/internal";
import { createManualClock, settle } from "./manual-clock.ts";
import { createScripted, failure } from "./scripted-backend.ts";

/** A throttled backend whose first describe is throttled. */
function throttledOnce(retryAfterMs?: number, maxWaitMs?: number) {
  const clock = createManualClock();
  let first = true;
  const scripted = createScripted((store) => {
    store.put("a", "a");
    return {
      describe: (describe) => async (key, options) => {
        if (!first) return describe(key, options);
        first = false;
        throw failure("throttled", retryAfterMs);
      },
    };
  });
  const throttled = withThrottle(scripted.backend, {
    clock,
    ...(maxWaitMs !== undefined && { maxWaitMs }),
  });
  return { clock, throttled, calls: scripted.calls };
}

test("one throttled call pauses every call of the backend until its time has passed", async () => {
  const { clock, throttled, calls } = throttledOnce(5000);
  await expect(throttled.describe("a")).rejects.toMatchObject({ code: "throttled" });
  const waiting = [throttled.describe("a"), throttled.open("a"), throttled.list()];
  await clock.advance(4999);
  expect(calls).toEqual(["describe a"]);
  await clock.advance(1);
  await Promise.all(waiting);
  expect(calls.length).toBe(4);
});

test("a service that names no time is not called for a second", async () => {
  const { clock, throttled, calls } = throttledOnce();
  await expect(throttled.describe("a")).rejects.toMatchObject({ code: "throttled" });
  const waiting = throttled.describe("a");
  await clock.advance(999);
  expect(calls.length).toBe(1);
  await clock.advance(1);
  await waiting;
});

test("an abort ends the wait with its reason, and no timer stays", async () => {
  const { clock, throttled } = throttledOnce(5000);
  await expect(throttled.describe("a")).rejects.toMatchObject({ code: "throttled" });
  const caller = new AbortController();
  const waiting = throttled.describe("a", { signal: caller.signal });
  await settle();
  caller.abort("the reason");
  await expect(waiting).rejects.toBe("the reason");
  expect(clock.waiting()).toBe(0);
});

test("a pause that is longer than a call may wait is throttled at once, with the time that is left", async () => {
  const { clock, throttled, calls } = throttledOnce(60_000, 10_000);
  await expect(throttled.describe("a")).rejects.toMatchObject({ code: "throttled" });
  await clock.advance(20_000);
  await expect(throttled.list()).rejects.toMatchObject({ code: "throttled", retryAfterMs: 40_000 });
  expect(calls.length).toBe(1);
  await clock.advance(30_000);
  const waiting = throttled.list();
  await clock.advance(10_000);
  await waiting;
});

test("a write that is throttled on its way pauses the backend as well", async () => {
  for (const step of ["write", "commit"] as const) {
    const clock = createManualClock();
    const { backend, calls } = createScripted(() => ({
      write: (write) => async (key, options) => ({
        ...(await write(key, options)),
        [step]: () => Promise.reject(failure("throttled", 5000)),
      }),
    }));
    const throttled = withThrottle(backend, { clock });
    await using writer = await throttled.write!("b");
    const writing = step === "write" ? writer.write(new Uint8Array(1)) : writer.commit();
    await expect(writing).rejects.toMatchObject({ code: "throttled" });
    const waiting = throttled.list();
    await clock.advance(4999);
    expect(calls).toEqual([]);
    await clock.advance(1);
    await waiting;
  }
});

test("other failures pause nothing", async () => {
  const { backend } = createScripted(() => ({
    describe: () => () => Promise.reject(failure("unavailable")),
  }));
  const throttled = withThrottle(backend, { clock: createManualClock() });
  await expect(throttled.describe("a")).rejects.toMatchObject({ code: "unavailable" });
  await throttled.list();
});

test("a removal waits for the pause as well, and makes one when it is throttled", async () => {
  const clock = createManualClock();
  let removals = 0;
  const { backend } = createScripted(() => ({
    remove: () => async () => {
      if (removals++ === 0) throw failure("throttled", 5000);
    },
  }));
  const throttled = withThrottle(backend, { clock });
  await expect(throttled.remove?.("a")).rejects.toMatchObject({ code: "throttled" });
  const waiting = throttled.remove?.("a");
  await clock.advance(4999);
  expect(removals).toBe(1);
  await clock.advance(1);
  await waiting;
  expect(removals).toBe(2);
});

test("a step that is throttled on its way pauses the backend as well", async () => {
  for (const call of ["write", "suspend", "commit"] as const) {
    const clock = createManualClock();
    const { backend, calls } = createScripted(() => ({
      writeInSteps: (writeInSteps) => async (key, options) => ({
        ...(await writeInSteps(key, options)),
        [call]: () => Promise.reject(failure("throttled", 5000)),
      }),
    }));
    const throttled = withThrottle(backend, { clock });
    const writer = await throttled.writeInSteps!("b");
    const writing = call === "write" ? writer.write(new Uint8Array(1)) : writer[call]();
    await expect(writing).rejects.toMatchObject({ code: "throttled" });
    const waiting = throttled.list();
    await clock.advance(4999);
    expect(calls).toEqual([]);
    await clock.advance(1);
    await waiting;
  }
});
