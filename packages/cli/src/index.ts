// what the command shows a download with, for programs that show theirs the same way
export {
  createProgressBar,
  type ProgressBar,
  type ProgressScreen,
} from "./terminal/progress-bar.ts";
export { formatBytes, formatDuration } from "./terminal/quantity.ts";
// the storages that `sluice serve` takes, for programs that take them the same way
export { openStorage } from "./storages/open-storage.ts";
