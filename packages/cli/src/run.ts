// the whole command, also for the package `sluice`
export { runCommand } from "./commands/run.ts";
