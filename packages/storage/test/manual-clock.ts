import type { Clock } from "@sluice/core/internal";

/** A clock that stands still until it is moved. */
export interface ManualClock extends Clock {
  /** Moves on, firing what falls due in its order; lets promises settle before and in between. */
  advance(ms: number): Promise<void>;
  /** Timers that are waiting. */
  waiting(): number;
}

export function createManualClock(): ManualClock {
  let time = 0;
  const timers = new Map<() => void, number>();
  return {
    now: () => time,
    schedule(callback, delayMs) {
      const fire = (): void => callback();
      timers.set(fire, time + delayMs);
      return () => void timers.delete(fire);
    },
    async advance(ms) {
      await settle();
      const end = time + ms;
      for (;;) {
        const due = [...timers].filter(([, at]) => at <= end).toSorted(([, a], [, b]) => a - b)[0];
        if (due === undefined) break;
        const [fire, at] = due;
        time = at;
        timers.delete(fire);
        fire();
        await settle();
      }
      time = end;
    },
    waiting: () => timers.size,
  };
}

/** Lets every promise that can settle do so. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}
