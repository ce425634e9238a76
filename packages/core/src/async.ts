export { backgroundClock, systemClock, type Clock } from "./async/clock.ts";
export { onAbort } from "./async/on-abort.ts";
export { sleep } from "./async/sleep.ts";
export { abortable, within, type Deadline } from "./async/within.ts";
