// the whole command, for the package `sluice`, whose program it is, too
export { run } from "./commands/run.ts";
