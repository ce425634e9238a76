// what the command shows a download with, for programs that show theirs the same way
export {
  createProgressBar,
  type ProgressBar,
  type ProgressScreen,
} from "./terminal/progress-bar.ts";
export { formatBytes, formatDuration } from "./terminal/quantity.ts";
