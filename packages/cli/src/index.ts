// the command's progress display, for programs that show theirs the same way
export {
  createProgressBar,
  type ProgressBar,
  type ProgressScreen,
} from "./terminal/progress-bar.ts";
export { formatBytes, formatDuration } from "./terminal/quantity.ts";
// the storages of `sluice serve`, for programs that take them the same way
export { openStorage } from "./storages/open-storage.ts";
