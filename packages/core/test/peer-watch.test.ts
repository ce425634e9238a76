import { PeerWatch } from "@sluice/core/internal";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const kib = 1_024;
const onLate = vi.fn<() => void>();

beforeEach(() => {
  onLate.mockClear();
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

const lateAfterMs = (ms: number): boolean[] => {
  vi.advanceTimersByTime(ms - 1);
  const before = onLate.mock.calls.length > 0;
  vi.advanceTimersByTime(2);
  return [before, onLate.mock.calls.length > 0];
};

test("a peer that does nothing in its turn is late after 30 s, and once", () => {
  const watch = new PeerWatch({ onLate });
  watch.begin();
  expect(lateAfterMs(30_000)).toEqual([false, true]);
  watch.begin();
  vi.advanceTimersByTime(100_000);
  expect(onLate).toHaveBeenCalledTimes(1);
});

test("announced bytes have a second more for every 4 KiB", () => {
  const watch = new PeerWatch({ onLate });
  watch.begin(32 * kib);
  watch.begin(8 * kib);
  expect(lateAfterMs(40_000)).toEqual([false, true]);
});

test.each([
  ["drips", 1, true],
  ["is slower than 4 KiB a second", 3.9 * kib * 10, true],
  ["is as fast as that", 4 * kib * 10, false],
])("a peer that %s: %i bytes every 10 s", (_what, bytes, isLate) => {
  const watch = new PeerWatch({ onLate });
  for (let n = 0; n < 200; n += 1) {
    watch.begin(bytes);
    vi.advanceTimersByTime(10_000);
    watch.moved(bytes);
  }
  expect(onLate).toHaveBeenCalledTimes(isLate ? 1 : 0);
  watch.close();
});

test("one that was fast for long has no more time than others when it stops", () => {
  const watch = new PeerWatch({ onLate });
  for (let n = 0; n < 1_000; n += 1) {
    watch.begin(512 * kib);
    watch.moved(512 * kib);
  }
  watch.begin();
  expect(lateAfterMs(30_000)).toEqual([false, true]);
});

test("time in which it is not its turn does not count, and makes up for its delay", () => {
  const watch = new PeerWatch({ onLate });
  for (let n = 0; n < 100; n += 1) {
    watch.begin(1);
    vi.advanceTimersByTime(20_000);
    watch.moved(1);
    vi.advanceTimersByTime(20_000);
  }
  expect(onLate).not.toHaveBeenCalled();
  watch.close();
});

test("nothing is left of a watch that was closed, or had nothing to watch for 30 s", () => {
  const [closed, quiet] = [new PeerWatch({ onLate }), new PeerWatch({ onLate })];
  closed.begin();
  closed.close();
  quiet.begin(1);
  quiet.moved(1);
  vi.advanceTimersByTime(30_000);
  expect([vi.getTimerCount(), onLate.mock.calls]).toEqual([0, []]);
});

test.each(["learns of it first", "looks first"])(
  "a process that was stopped for an hour, and %s, does not take its peer for late",
  (which) => {
    const watch = new PeerWatch({ onLate });
    watch.begin(kib);
    vi.advanceTimersByTime(2_000);
    const stopped = performance.now() + 3_600_000;
    const now = vi.spyOn(performance, "now").mockReturnValue(stopped);
    if (which === "looks first") vi.advanceTimersByTime(1_000);
    watch.moved(kib);
    now.mockRestore();
    expect(onLate).not.toHaveBeenCalled();
    watch.close();
  },
);
