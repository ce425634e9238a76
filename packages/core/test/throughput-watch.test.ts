import { IdleTimer, watchThroughput, type ThroughputRules } from "@sluice/core/internal";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function start(rules: ThroughputRules) {
  const onLate = vi.fn<(lateness: string) => void>();
  const watch = watchThroughput(rules, onLate);
  const late = (): unknown => onLate.mock.calls.flat().join(" ");
  /** Moves this many bytes each second. */
  const run = (seconds: number, bytes = 0): void => {
    for (let second = 0; second < seconds; second += 1) {
      vi.advanceTimersByTime(1_000);
      if (bytes > 0) watch.moved(bytes);
    }
  };
  return { watch, late, run };
}

test.each<[string, ThroughputRules, number, string]>([
  ["moves nothing", { idleMs: 10_000 }, 10_000, "idle"],
  ["is below the least rate", { minBytesPerSecond: 1, windowMs: 20_000 }, 20_000, "slow"],
  [
    "is below it after a free window",
    { minBytesPerSecond: 1, windowMs: 20_000, isFirstWindowFree: true },
    40_000,
    "slow",
  ],
  ["takes too long in all", { totalMs: 15_000 }, 15_000, "total"],
])("a peer that %s is late at the end of its time, once", (_what, rules, ms, lateness) => {
  const { late } = start(rules);
  vi.advanceTimersByTime(ms - 2);
  expect(late()).toBe("");
  vi.advanceTimersByTime(ms);
  expect([late(), vi.getTimerCount()]).toEqual([lateness, 0]);
});

test("each window has to have the least rate", () => {
  const { late, run } = start({ minBytesPerSecond: 100, windowMs: 10_000 });
  run(30, 120);
  expect(late()).toBe("");
  run(20, 90);
  expect(late()).toBe("slow");
});

test("bytes end the silence, and the watch ends with stop, which tells how long it waited", () => {
  const { watch, late, run } = start({ idleMs: 10_000 });
  run(100, 1);
  expect([watch.stop(), late(), vi.getTimerCount()]).toEqual([100_000, "", 0]);
});

test.each([
  [false, ""],
  [true, "total"],
])(
  "time on hold is not the peer's; whether it counts in the total (%s) is a rule",
  (counts, said) => {
    const rules = { idleMs: 5_000, minBytesPerSecond: 1, windowMs: 5_000, totalMs: 20_000 };
    const { watch, late, run } = start({ ...rules, holdCountsInTotal: counts });
    run(4, 1);
    watch.hold();
    run(60);
    expect(late()).toBe(said);
    if (counts) return;
    watch.go();
    expect(watch.stop()).toBe(4_000);
  },
);

test.each([
  [false, "slow"],
  [true, ""],
])("windows add up over holds, unless a hold begins them anew (%s)", (holdEndsWindow, said) => {
  const { watch, late, run } = start({ minBytesPerSecond: 1, windowMs: 10_000, holdEndsWindow });
  for (let round = 0; round < 4; round += 1) {
    watch.go();
    run(5);
    watch.hold();
    run(5);
  }
  expect(late()).toBe(said);
});

test("a process that was stopped for an hour does not take its peer for late", () => {
  const { watch, late } = start({ idleMs: 10_000 });
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 3_600_000);
  watch.moved(1);
  now.mockRestore();
  expect(late()).toBe("");
});

test("an idle timer calls back once, so long after the last touch", () => {
  const onIdle = vi.fn<() => void>();
  const timer = new IdleTimer(1_000, onIdle);
  vi.advanceTimersByTime(900);
  timer.touch();
  vi.advanceTimersByTime(999);
  expect(onIdle).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(onIdle).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(5_000);
  expect([onIdle.mock.calls.length, vi.getTimerCount()]).toEqual([1, 0]);
});

test("an idle timer that its callback touches continues, and a stopped one does not", () => {
  const onIdle = vi.fn<() => void>(() => timer.touch());
  const timer = new IdleTimer(1_000, onIdle);
  vi.advanceTimersByTime(3_000);
  expect(onIdle).toHaveBeenCalledTimes(3);
  timer.stop();
  vi.advanceTimersByTime(3_000);
  expect([onIdle.mock.calls.length, vi.getTimerCount()]).toEqual([3, 0]);
});
