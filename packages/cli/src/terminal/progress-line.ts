import { formatBytes, formatDuration } from "./quantity.ts";

/** What a progress line tells. */
export interface ProgressFacts {
  /** Bytes that are there, those of an earlier run included. */
  readonly receivedBytes: number;
  /** Bytes in all, when known. */
  readonly size?: number | undefined;
  readonly bytesPerSecond?: number | undefined;
}

const widestBar = 40;
const narrowestBar = 8;
const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;

/**
 * One line of at most `columns` characters: bar, percent, bytes, rate and time left. What does not
 * fit is left out, the bar first, then what stands furthest to the right.
 */
export function formatProgress(facts: ProgressFacts, columns: number): string {
  const { receivedBytes, size, bytesPerSecond } = facts;
  const parts: string[] = [];
  const fraction = size === undefined ? undefined : size === 0 ? 1 : receivedBytes / size;
  if (fraction !== undefined) parts.push(`${Math.floor(Math.min(fraction, 1) * 100)}%`.padStart(4));
  parts.push(
    size === undefined
      ? formatBytes(receivedBytes)
      : `${formatBytes(receivedBytes).padStart(8)} of ${formatBytes(size)}`,
  );
  if (bytesPerSecond !== undefined) {
    parts.push(`${formatBytes(bytesPerSecond)}/s`.padStart(10));
    const left = size === undefined ? undefined : (size - receivedBytes) / bytesPerSecond;
    if (left !== undefined && Number.isFinite(left) && left >= 0)
      parts.push(`${formatDuration(left * 1000)} left`);
  }
  while (parts.length > 1 && parts.join("  ").length > columns) parts.pop();
  const text = parts.join("  ");
  const room = Math.min(columns - text.length - 1, widestBar);
  if (fraction === undefined || room < narrowestBar) return text.slice(0, columns);
  return `${formatBar(fraction, room)} ${text}`;
}

/** A bar of exactly `width` characters, filled to an eighth of a character. */
function formatBar(fraction: number, width: number): string {
  const filled = Math.round(Math.min(Math.max(fraction, 0), 1) * width * 8);
  const bar = "█".repeat(Math.floor(filled / 8)) + eighths[filled % 8];
  return bar + "░".repeat(width - bar.length);
}
