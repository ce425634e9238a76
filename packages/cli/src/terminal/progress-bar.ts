import { formatBytes, formatDuration } from "./quantity.ts";

/** Shows how far a download is. */
export interface ProgressBar {
  /** Shows that the first byte is waited for, unless there is one: a server may ask for patience. */
  start(): void;
  /** Tells how many bytes are there, and how many there will be when that is known; of several files also how many are done. */
  update(receivedBytes: number, size?: number, files?: FileCount): void;
  /** Wipes the bar, so that something can be printed where it was. */
  clear(): void;
}

/** How many of several files are done. */
interface FileCount {
  readonly done: number;
  readonly total: number;
}

/** Where a bar is drawn. A Node stream such as `process.stderr` is one. */
export interface ProgressScreen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const redrawMs = 80;
const idleMs = 500;
/** A shorter pause is not shown as one. */
const minWaitMs = 2_000;

/**
 * A bar on `screen`, redrawn in place: as bytes come, and without any twice a second, so that a stalled download shows
 * its rate falling, and for how long it has waited. Draws nothing if `screen` is not a terminal.
 */
export function createProgressBar(
  screen: ProgressScreen,
  options: { readonly now?: () => number } = {},
): ProgressBar {
  if (!screen.isTTY) return noBar;
  const { now = () => performance.now() } = options;
  const speed = createSpeedometer();
  let drawnAt = -Infinity;
  let changedAt = 0;
  let latest: (Pick<ProgressFacts, "size" | "files"> & { readonly bytes: number }) | undefined;
  let idle: NodeJS.Timeout | undefined;

  function schedule(): void {
    clearTimeout(idle);
    idle = setTimeout(redraw, idleMs).unref();
  }

  function redraw(): void {
    const nowMs = now();
    if (latest) speed.note(latest.bytes, nowMs);
    if (latest || nowMs - changedAt >= minWaitMs) draw(nowMs);
    schedule();
  }

  function draw(nowMs: number): void {
    drawnAt = nowMs;
    // the last column stays free: some terminals wrap when it is written to
    const columns = (screen.columns ?? 80) - 1;
    const { bytes: receivedBytes = 0, size, files } = latest ?? {};
    const { bytesPerSecond } = speed;
    const facts = { receivedBytes, size, files, bytesPerSecond, waitedMs: nowMs - changedAt };
    screen.write(`\r${formatProgress(facts, columns)}\u001b[K`);
  }

  return {
    start() {
      if (latest) return;
      changedAt = now();
      schedule();
    },
    update(bytes, size, files) {
      const nowMs = now();
      speed.note(bytes, nowMs);
      if (bytes !== latest?.bytes) changedAt = nowMs;
      latest = { bytes, size, files };
      if (nowMs - drawnAt < redrawMs) return;
      draw(nowMs);
      schedule();
    },
    clear() {
      clearTimeout(idle);
      if (drawnAt > -Infinity) screen.write("\r\u001b[K");
      drawnAt = -Infinity;
      latest = undefined;
    },
  };
}

/** Draws nothing. */
export const noBar: ProgressBar = { start() {}, update() {}, clear() {} };

/** How fast something goes, over its last few seconds. */
interface Speedometer {
  /** Notes that `bytes` in all were there at `nowMs`. */
  note(bytes: number, nowMs: number): void;
  /** Bytes a second, or `undefined` until there is something to tell. */
  readonly bytesPerSecond: number | undefined;
}

const windowMs = 5_000;
const spacingMs = 100;

/** A speedometer over a sliding window of five seconds; what was there at the first note does not count. */
export function createSpeedometer(): Speedometer {
  const notes: { bytes: number; atMs: number }[] = [];
  let last: { bytes: number; atMs: number } | undefined;
  return {
    note(bytes, nowMs) {
      // fewer bytes than before: the download began anew
      if (last !== undefined && bytes < last.bytes) notes.length = 0;
      last = { bytes, atMs: nowMs };
      if (notes.length === 0 || nowMs - notes.at(-1)!.atMs >= spacingMs) notes.push(last);
      while (notes.length > 2 && nowMs - notes[1]!.atMs >= windowMs) notes.shift();
    },
    get bytesPerSecond() {
      const first = notes[0];
      if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
      return ((last.bytes - first.bytes) / (last.atMs - first.atMs)) * 1000;
    },
  };
}

interface ProgressFacts {
  /** Bytes that are there, those of an earlier run included. */
  readonly receivedBytes: number;
  /** Bytes in all, when known. */
  readonly size?: number | undefined;
  readonly files?: FileCount | undefined;
  readonly bytesPerSecond?: number | undefined;
  /** Since the last byte came. */
  readonly waitedMs?: number;
}

const widestBar = 40;
const narrowestBar = 8;
const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;

/**
 * One line of at most `columns` characters: bar, percent, bytes, files, rate and time left. What does not
 * fit is left out, the bar first, then what stands furthest to the right.
 */
export function formatProgress(facts: ProgressFacts, columns: number): string {
  const { receivedBytes, size, files, bytesPerSecond, waitedMs = 0 } = facts;
  const parts: string[] = [];
  const fraction = size === undefined ? undefined : size === 0 ? 1 : receivedBytes / size;
  if (fraction !== undefined) parts.push(`${Math.floor(Math.min(fraction, 1) * 100)}%`.padStart(4));
  parts.push(
    size === undefined
      ? formatBytes(receivedBytes)
      : `${formatBytes(receivedBytes).padStart(8)} of ${formatBytes(size)}`,
  );
  if (files) parts.push(`${files.done} of ${files.total} files`);
  if (bytesPerSecond !== undefined) {
    parts.push(`${formatBytes(bytesPerSecond)}/s`.padStart(10));
    const secondsLeft = size === undefined ? undefined : (size - receivedBytes) / bytesPerSecond;
    if (secondsLeft !== undefined && Number.isFinite(secondsLeft) && secondsLeft >= 0)
      parts.push(`${formatDuration(secondsLeft * 1000)} left`);
  }
  // what the rate says of the time left is not so while nothing comes
  if (waitedMs >= minWaitMs) {
    if (parts.at(-1)?.endsWith(" left")) parts.pop();
    parts.push(`waiting ${formatDuration(waitedMs)}`);
  }
  while (parts.length > 1 && parts.join("  ").length > columns) parts.pop();
  const text = parts.join("  ");
  const room = Math.min(columns - text.length - 1, widestBar);
  if (fraction === undefined || room < narrowestBar) return text.slice(0, columns);
  return `${formatBar(fraction, room)} ${text}`;
}

/** A bar of exactly `width` characters, filled to an eighth of a character. */
function formatBar(fraction: number, width: number): string {
  const filledEighths = Math.round(Math.min(Math.max(fraction, 0), 1) * width * 8);
  const bar = "█".repeat(Math.floor(filledEighths / 8)) + eighths[filledEighths % 8];
  return bar + "░".repeat(width - bar.length);
}

/** How far one of several downloads is. */
export type ReportProgress = (receivedBytes: number, size?: number) => void;

/** One of several downloads on a bar. */
export interface SharedProgress {
  readonly report: ReportProgress;
  /** It is over, however it ended. Idempotent. */
  readonly end: () => void;
}

/**
 * Shows `count` downloads on one bar: the bytes of all, how many are over, and how many bytes they have together once each has
 * told its size. Gives a function that begins one, with its size if that is known.
 */
export function shareProgress(
  bar: Pick<ProgressBar, "update">,
  count: number,
): (size?: number) => SharedProgress {
  let receivedBytes = 0;
  let totalBytes = 0;
  let sized = 0;
  let done = 0;

  function draw(): void {
    const files = count > 1 ? { done, total: count } : undefined;
    bar.update(receivedBytes, sized === count ? totalBytes : undefined, files);
  }

  return (size) => {
    let received = 0;
    let reportedSize: number | undefined;
    let isOver = false;
    const resize = (bytes: number): void => {
      if (reportedSize === undefined) sized += 1;
      totalBytes += bytes - (reportedSize ?? 0);
      reportedSize = bytes;
    };
    if (size !== undefined) resize(size);
    return {
      report(bytes, newSize) {
        receivedBytes += bytes - received;
        received = bytes;
        if (newSize !== undefined) resize(newSize);
        draw();
      },
      end() {
        if (isOver) return;
        isOver = true;
        done += 1;
        // what did not come is not waited for
        resize(received);
        draw();
      },
    };
  };
}
