import { systemClock, type Clock } from "./clock.ts";

const gapMs = 10;

/**
 * How long a result waits behind the notifications before it. A client on the MCP SDK that takes both in one read of a pipe ends
 * the call before it handles the progress. No pipe tells when its reader has read: the time is enough for one that is not busy.
 */
export class ResultGap {
  readonly #clock: Clock;
  #notifiedAt = -Infinity;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Milliseconds until this message may be written; 0 for all but results that closely follow a notification. */
  waitMs(message: object): number {
    if (!("method" in message)) return Math.max(0, this.#notifiedAt + gapMs - this.#clock.now());
    this.#notifiedAt = this.#clock.now();
    return 0;
  }
}
