import { formatProgress } from "./progress-line.ts";
import { createSpeedometer } from "./speedometer.ts";

/** Shows how far a download is. */
export interface ProgressBar {
  /** Tells how many bytes are there, and how many there will be when that is known. */
  update(receivedBytes: number, size?: number): void;
  /** Wipes the bar, so that something can be printed where it was. */
  clear(): void;
}

/** Where a bar is drawn. A Node stream such as `process.stderr` is one. */
export interface ProgressScreen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const redrawMs = 80;
const idleMs = 500;

/**
 * A bar on `screen`, redrawn in place: as bytes come, and without any twice a second, so that a
 * stalled download shows its rate falling. Draws nothing where `screen` is not a terminal.
 */
export function createProgressBar(
  screen: ProgressScreen,
  options: { readonly now?: () => number } = {},
): ProgressBar {
  if (!screen.isTTY) return { update() {}, clear() {} };
  const { now = () => performance.now() } = options;
  const speed = createSpeedometer();
  let drawnAt = -Infinity;
  let idle: NodeJS.Timeout | undefined;
  return {
    update(receivedBytes, size) {
      const nowMs = now();
      speed.note(receivedBytes, nowMs);
      if (nowMs - drawnAt < redrawMs) return;
      drawnAt = nowMs;
      // the last column stays free: some terminals wrap when it is written to
      const columns = (screen.columns ?? 80) - 1;
      const facts = { receivedBytes, size, bytesPerSecond: speed.bytesPerSecond };
      screen.write(`\r${formatProgress(facts, columns)}\u001b[K`);
      clearTimeout(idle);
      idle = setTimeout(() => this.update(receivedBytes, size), idleMs).unref();
    },
    clear() {
      clearTimeout(idle);
      if (drawnAt > -Infinity) screen.write("\r\u001b[K");
      drawnAt = -Infinity;
    },
  };
}
