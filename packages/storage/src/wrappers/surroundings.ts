import type { Clock } from "@sluice/core/internal";

/** What wrappers take from the machine. Only tests replace it: the public options leave it out. */
export interface Surroundings {
  /** Where waits and ages take their time from. Default: the platform's clock. */
  readonly clock?: Clock;
  /** A number in [0, 1), for the jitter. Default: `Math.random`. */
  readonly random?: () => number;
}
