import { isInTime } from "@sluice/core/async";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new Promise<never>(() => {});

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
