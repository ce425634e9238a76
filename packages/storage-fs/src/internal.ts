/**
 * What the other packages of Sluice build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { holdFolder, type HeldFolder } from "./write/hold-folder.ts";
