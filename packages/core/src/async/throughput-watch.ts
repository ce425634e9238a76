import { backgroundClock, type Clock } from "./clock.ts";

/** How slow a peer may be. An absent limit is not enforced. */
export interface ThroughputRules {
  /** Longest time without a byte, in milliseconds. */
  readonly idleMs?: number | undefined;
  /** Minimum bytes per second over each `windowMs`. */
  readonly minBytesPerSecond?: number | undefined;
  readonly windowMs?: number | undefined;
  /** Whether the first window passes whatever moves in it. Default false. */
  readonly isFirstWindowFree?: boolean | undefined;
  /** Whether a hold begins the window anew, for streams that rest between messages. Default false. */
  readonly holdEndsWindow?: boolean | undefined;
  /** Longest time in all, in milliseconds. */
  readonly totalMs?: number | undefined;
  /** Whether `totalMs` includes the time of holds. Default false. */
  readonly holdCountsInTotal?: boolean | undefined;
}

/** Which limit a peer missed: it moves nothing, too little, or takes too long in all. */
export type Lateness = "idle" | "slow" | "total";

/** Watches a peer that moves bytes. Time counts while this end waits for the peer. */
export interface ThroughputWatch {
  /** The peer moved this many bytes. */
  moved(bytes: number): void;
  /** This end is busy: time stands still until {@link go}. */
  hold(): void;
  /** This end waits for the peer again. */
  go(): void;
  /** Ends the watch. Gives the milliseconds for which this end waited. */
  stop(): number;
}

/**
 * Starts a watch; `onLate` is called once, which ends it. Time in which this process did not run is not the peer's.
 * For a peer whose turns and bytes are known there is `PeerWatch`, which needs no windows.
 */
export function watchThroughput(
  rules: ThroughputRules,
  onLate: (lateness: Lateness) => void,
  clock: Clock = backgroundClock,
): ThroughputWatch {
  const { idleMs = Infinity, totalMs = Infinity, windowMs = Infinity } = rules;
  const { minBytesPerSecond = 0, holdEndsWindow = false, holdCountsInTotal = false } = rules;
  const minBytes = windowMs === Infinity ? 0 : (minBytesPerSecond * windowMs) / 1_000;
  const lookMs = Math.max(1, Math.min(idleMs, totalMs, windowMs) / 4);
  let isWaiting = true;
  let isFree = rules.isFirstWindowFree ?? false;
  let countedTo = clock.now();
  let idle = 0;
  let total = 0;
  let waited = 0;
  let window = { ms: 0, bytes: 0 };

  function count(): void {
    const now = clock.now();
    // longer between two looks: the process, or the machine, was stopped
    const ms = Math.min(now - countedTo, 2 * lookMs);
    countedTo = now;
    if (isWaiting || holdCountsInTotal) total += ms;
    if (!isWaiting) return;
    idle += ms;
    waited += ms;
    window.ms += ms;
  }

  function lateness(): Lateness | undefined {
    if (idle >= idleMs) return "idle";
    if (total >= totalMs) return "total";
    if (window.ms < windowMs) return undefined;
    const isSlow = window.bytes < minBytes && !isFree;
    isFree = false;
    window = { ms: 0, bytes: 0 };
    return isSlow ? "slow" : undefined;
  }

  function look(): void {
    count();
    const late = lateness();
    if (late) return onLate(late);
    const leftMs = Math.min(idleMs - idle, totalMs - total, windowMs - window.ms);
    cancel = clock.schedule(look, isWaiting ? Math.max(1, Math.min(lookMs, leftMs)) : lookMs);
  }

  let cancel = clock.schedule(look, lookMs);
  return {
    moved(bytes) {
      count();
      idle = 0;
      window.bytes += bytes;
    },
    hold() {
      count();
      isWaiting = false;
      if (holdEndsWindow) window = { ms: 0, bytes: 0 };
    },
    go() {
      count();
      isWaiting = true;
    },
    stop() {
      count();
      cancel();
      return waited;
    },
  };
}

/** Default minimum of bytes per second that a peer moves while it is its turn. */
const defaultBytesPerSecond = 4_096;

/**
 * How long a peer may keep this process waiting: for `graceMs`, and a second more for every 4 KiB
 * that it moves. A peer that stops is late, and so is one that drips; one that is fast saves
 * nothing up.
 */
export class ThroughputBudget {
  readonly #graceMs: number;
  readonly #bytesPerMs: number;
  #leftMs: number;

  constructor(graceMs: number, minBytesPerSecond: number = defaultBytesPerSecond) {
    this.#graceMs = graceMs;
    this.#bytesPerMs = minBytesPerSecond / 1_000;
    this.#leftMs = graceMs;
  }

  /** Milliseconds that are left; negative when the peer is late. */
  get leftMs(): number {
    return this.#leftMs;
  }

  msFor(bytes: number): number {
    return bytes / this.#bytesPerMs;
  }

  /** Counts time in which it was the peer's turn, and what the peer moved in it. */
  spend(waitedMs: number, bytes: number): void {
    this.#leftMs = Math.min(this.#graceMs, this.#leftMs - waitedMs + this.msFor(bytes));
  }

  /** Counts time in which it was not the peer's turn. */
  rest(ms: number): void {
    this.spend(-ms, 0);
  }
}
