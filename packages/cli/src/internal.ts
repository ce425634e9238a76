/**
 * Parts of the command for the demo programs. Outside of the promise of versions: it changes in any release.
 * @module
 */
export {
  createProgressBar,
  type ProgressBar,
  type ProgressScreen,
} from "./terminal/progress-bar.ts";
export { formatBytes, formatDuration } from "./terminal/quantity.ts";
export { openStorage } from "./storages/open-storage.ts";
