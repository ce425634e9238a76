import { expect, test, vi } from "vitest";
import {
  createProgressBar,
  createSpeedometer,
  formatProgress,
} from "../src/terminal/progress-bar.ts";

const mebi = 1024 ** 2;

test("a line shows bar, percent, bytes, rate and time left [SEP-2532/plan/cli-progress]", () => {
  const facts = { receivedBytes: 25 * mebi, size: 100 * mebi, bytesPerSecond: 10 * mebi };
  expect(formatProgress(facts, 80)).toBe(
    "███████▌░░░░░░░░░░░░░░░░░░░░░░  25%  25.0 MiB of 100 MiB  10.0 MiB/s  7.5 s left",
  );
});

test("no line is wider than the terminal, however narrow that is", () => {
  for (let columns = 1; columns <= 200; columns++)
    for (const size of [undefined, 0, 10, 5 * 1024 ** 4])
      for (const bytesPerSecond of [undefined, 0, 1, 1e9])
        for (const receivedBytes of [0, 7, 10]) {
          const line = formatProgress({ receivedBytes, size, bytesPerSecond }, columns);
          expect(line.length).toBeLessThanOrEqual(columns);
        }
});

test("without a size there is neither bar nor percent nor time left", () => {
  expect(formatProgress({ receivedBytes: 5 * mebi, bytesPerSecond: mebi }, 80)).toBe(
    "5.0 MiB   1.0 MiB/s",
  );
});

test("100 % is shown only when the last byte is there", () => {
  const almost = formatProgress({ receivedBytes: 1024 ** 3 - 1, size: 1024 ** 3 }, 80);
  expect(almost).toContain(" 99%");
  expect(formatProgress({ receivedBytes: 1024 ** 3, size: 1024 ** 3 }, 80)).toContain("100%");
  expect(formatProgress({ receivedBytes: 0, size: 0 }, 80)).toContain("100%");
});

test("bytes of an earlier run do not count for the rate", () => {
  const speed = createSpeedometer();
  speed.note(900 * mebi, 0);
  expect(speed.bytesPerSecond).toBeUndefined();
  speed.note(910 * mebi, 1_000);
  expect(speed.bytesPerSecond).toBe(10 * mebi);
});

test("the rate forgets what was longer ago than five seconds", () => {
  const speed = createSpeedometer();
  for (let second = 0; second <= 10; second++) speed.note(second * 100, second * 1000);
  for (let second = 11; second <= 20; second++)
    speed.note(1000 + (second - 10) * 10, second * 1000);
  expect(speed.bytesPerSecond).toBe(10);
});

test("a download that begins anew does not run backwards", () => {
  const speed = createSpeedometer();
  speed.note(0, 0);
  speed.note(500, 1_000);
  speed.note(0, 2_000);
  speed.note(100, 3_000);
  expect(speed.bytesPerSecond).toBe(100);
});

function screen(isTTY: boolean) {
  const written: string[] = [];
  return { isTTY, columns: 60, written, write: (text: string) => written.push(text) };
}

test("a bar is redrawn in place and leaves nothing behind", () => {
  const terminal = screen(true);
  let nowMs = 0;
  const bar = createProgressBar(terminal, { now: () => nowMs });
  for (; nowMs < 1_000; nowMs++) bar.update(nowMs, 1_000);
  bar.clear();
  expect(terminal.written.length).toBeLessThan(20);
  for (const text of terminal.written) {
    expect(text.startsWith("\r") && text.endsWith("\u001b[K")).toBe(true);
    expect(text).not.toContain("\n");
  }
  expect(terminal.written.at(-1)).toBe("\r\u001b[K");
});

test("a download that stalls shows its rate falling to nothing", () => {
  vi.useFakeTimers();
  const terminal = screen(true);
  const bar = createProgressBar(terminal, { now: () => Date.now() });
  bar.update(0, 1_000);
  vi.advanceTimersByTime(200);
  bar.update(900, 1_000);
  vi.advanceTimersByTime(20_000);
  expect(terminal.written.at(-1)).toContain("0 B/s");
  bar.clear();
  const drawn = terminal.written.length;
  vi.advanceTimersByTime(20_000);
  expect(terminal.written).toHaveLength(drawn);
  vi.useRealTimers();
});

test("a download that waits shows for how long, before its first byte and after it", () => {
  vi.useFakeTimers();
  const terminal = screen(true);
  const bar = createProgressBar(terminal, { now: () => Date.now() });
  bar.start();
  vi.advanceTimersByTime(1_900);
  expect(terminal.written).toEqual([]);
  vi.advanceTimersByTime(10_100);
  expect(terminal.written.at(-1)).toMatch(/0 B {2}waiting 12 s/);
  vi.advanceTimersByTime(100);
  bar.update(500, 1_000);
  expect(terminal.written.at(-1)).not.toContain("waiting");
  // what others of several downloads do begins nothing anew
  bar.start();
  vi.advanceTimersByTime(30_000);
  expect(terminal.written.at(-1)).toMatch(/50%.*waiting 30 s/);
  expect(terminal.written.at(-1)).not.toContain("left");
  vi.advanceTimersByTime(100);
  bar.update(600, 1_000);
  expect(terminal.written.at(-1)).not.toContain("waiting");
  bar.clear();
  vi.useRealTimers();
});

test("draws nothing without a terminal", () => {
  const pipe = screen(false);
  const bar = createProgressBar(pipe);
  bar.start();
  bar.update(1, 2);
  bar.clear();
  expect(pipe.written).toEqual([]);
});
