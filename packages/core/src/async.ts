export { backgroundClock, systemClock, type Clock } from "./async/clock.ts";
export { ConcurrencyLimiter } from "./async/concurrency.ts";
export { IdleTimer } from "./async/idle-timer.ts";
export { Notifier } from "./async/concurrency.ts";
export { onAbort } from "./async/on-abort.ts";
export { PeerWatch, type PeerWatchOptions } from "./async/peer-watch.ts";
export { nextTurn } from "./async/sleep.ts";
export {
  createSessionTable,
  type SessionBounds,
  type SessionEntry,
  type SessionTable,
} from "./async/session-table.ts";
export { ResultGap } from "./async/result-gap.ts";
export { createSharedRuns } from "./async/concurrency.ts";
export { sleep } from "./async/sleep.ts";
export { ThroughputBudget } from "./async/throughput-budget.ts";
export {
  watchThroughput,
  type Lateness,
  type ThroughputRules,
  type ThroughputWatch,
} from "./async/throughput-watch.ts";
export { TurnQueue } from "./async/concurrency.ts";
export { abortable, isInTime, within, type Deadline } from "./async/within.ts";
