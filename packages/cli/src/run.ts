// the whole command, also for the package `sluice`
export { run } from "./commands/run.ts";
