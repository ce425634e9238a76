/**
 * The whole command, for the package `sluice`. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { runCommand } from "./commands/run.ts";
