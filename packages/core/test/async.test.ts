import {
  abortable,
  backgroundClock,
  isInTime,
  onAbort,
  sleep,
  systemClock,
  within,
} from "@sluice/core/internal";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new Promise<never>(() => {});
const expired = (): Error => new Error("too late");

describe("a clock", () => {
  for (const clock of [systemClock, backgroundClock])
    test("calls back after the whole delay, even one too long for setTimeout", () => {
      const call = vi.fn<() => void>();
      clock.schedule(call, 5 * 2 ** 31);
      vi.advanceTimersByTime(5 * 2 ** 31 - 1);
      expect(call).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(call).toHaveBeenCalledOnce();
      expect(vi.getTimerCount()).toBe(0);
    });

  test("a cancelled call never comes, even in the middle of a long delay", () => {
    const call = vi.fn<() => void>();
    const cancel = systemClock.schedule(call, 2 ** 32);
    vi.advanceTimersByTime(2 ** 31);
    cancel();
    expect(vi.getTimerCount()).toBe(0);
    expect(call).not.toHaveBeenCalled();
  });
});

describe("a wait leaves neither a timer nor a listener", () => {
  function watched(): { signal: AbortSignal; abort: () => void; listeners: () => number } {
    const controller = new AbortController();
    let count = 0;
    const { signal } = controller;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      count += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      count -= 1;
      remove(...args);
    };
    return { signal, abort: () => controller.abort(new Error("stop")), listeners: () => count };
  }

  test("when the work is done", async () => {
    const { signal, listeners } = watched();
    await within(Promise.resolve(1), { timeoutMs: 50, expired, signal });
    await abortable(Promise.resolve(1), signal);
    const slept = sleep(50, signal);
    await vi.advanceTimersByTimeAsync(50);
    await slept;
    expect([vi.getTimerCount(), listeners()]).toEqual([0, 0]);
  });

  test("when its deadline passes, which rejects with the error of the deadline", async () => {
    const { signal, listeners } = watched();
    const wait = within(never, { timeoutMs: 50, expired, signal }).catch((error: Error) => error);
    await vi.advanceTimersByTimeAsync(50);
    expect(await wait).toMatchObject({ message: "too late" });
    expect([vi.getTimerCount(), listeners()]).toEqual([0, 0]);
  });

  test("when its signal aborts, or has, which rejects with the reason of the signal", async () => {
    const { signal, abort } = watched();
    const waits = [
      within(never, { timeoutMs: 50, expired, signal }),
      abortable(never, signal),
      sleep(50, signal),
    ];
    abort();
    waits.push(
      within(never, { timeoutMs: 50, expired, signal }),
      abortable(never, signal),
      sleep(50, signal),
    );
    for (const { status, reason } of (await Promise.allSettled(waits)) as PromiseRejectedResult[])
      expect([status, (reason as Error).message]).toEqual(["rejected", "stop"]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

test("a value that comes after the wait is discarded, and a late error is ignored", async () => {
  const discarded: string[] = [];
  const controller = new AbortController();
  let resolve!: (value: string) => void;
  let reject!: (error: Error) => void;
  const late = new Promise<string>((settle) => void (resolve = settle));
  const failing = new Promise<string>((_settle, fail) => void (reject = fail));
  const terms = { timeoutMs: 1_000, expired, signal: controller.signal };
  const waits = [late, failing].map((work) =>
    within(work, terms, (value) => void discarded.push(value)),
  );
  controller.abort(new Error("stop"));
  await Promise.allSettled(waits);
  resolve("connection");
  reject(new Error("late"));
  await Promise.resolve();
  expect(discarded).toEqual(["connection"]);
});

test("a listener of an abort is called once, at once when the signal has aborted, and never when it was removed", () => {
  const controller = new AbortController();
  const reasons: unknown[] = [];
  const note = (reason: unknown): void => void reasons.push(reason);
  onAbort(controller.signal, note)();
  onAbort(controller.signal, note);
  onAbort(undefined, note)();
  controller.abort("first");
  onAbort(controller.signal, note);
  expect(reasons).toEqual(["first", "first"]);
});

test("any number of listeners is one listener of the platform, and one that throws stops no other", async () => {
  const controller = new AbortController();
  const added = vi.spyOn(controller.signal, "addEventListener");
  const called: number[] = [];
  const removals = Array.from({ length: 50 }, (_, index) =>
    onAbort(controller.signal, () => {
      called.push(index);
      // the end of one wait is often that of another
      if (index === 1) removals[2]!();
      if (index === 3) throw new Error("bad listener");
    }),
  );
  removals[0]!();
  const thrown: (() => void)[] = [];
  const later = vi.spyOn(globalThis, "queueMicrotask");
  later.mockImplementation((callback) => void thrown.push(callback));
  controller.abort();
  later.mockRestore();
  expect(thrown).toHaveLength(1);
  expect(thrown[0]).toThrow("bad listener");
  expect(called).toEqual(removals.map((_, index) => index).filter((i) => i !== 0 && i !== 2));
  expect(added).toHaveBeenCalledTimes(1);
});

test("an event is in time, or is not, and no timer is left", async () => {
  expect(await isInTime(Promise.resolve(), 10)).toBe(true);
  const late = isInTime(never, 2 ** 33);
  await vi.advanceTimersByTimeAsync(2 ** 33);
  expect([await late, vi.getTimerCount()]).toEqual([false, 0]);
});

test("an abort, or an event that fails, ends the wait", async () => {
  expect(await isInTime(never, 10, AbortSignal.abort())).toBe(false);
  expect(await isInTime(Promise.reject(new Error("no")), 10)).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});
