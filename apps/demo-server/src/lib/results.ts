import { formatBytes, formatDuration } from "@sluice/cli/internal";
import type { MemoryUse } from "./peer.ts";
import type { Result } from "./trial.ts";

/** Results as a table, a row each. Memory is the peak, and in brackets how much it grew for the file. */
export function formatResults(results: readonly Result[]): string {
  const rows = [
    ["", "time", "rate", "server memory", "client memory"],
    ...results.map(({ way, bytes, durationMs, server, client }) => [
      way,
      formatDuration(durationMs),
      `${formatBytes((bytes / durationMs) * 1000)}/s`,
      formatMemory(server),
      formatMemory(client),
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) => formatRow(row, widths)).join("\n");
}

/** How much more base64 costs than the direct way, in a sentence. */
export function formatComparison(direct: Result, base64: Result): string {
  const times = (base64.durationMs / direct.durationMs).toFixed(1);
  const [more, less] = [base64, direct].map(({ server, client }) =>
    formatBytes(growth(server) + growth(client)),
  );
  return `base64 takes ${times} times as long as direct, and ${more} of memory at both ends instead of ${less}.`;
}

function formatRow(row: readonly string[], widths: readonly number[]): string {
  const cells = row.map((cell, column) =>
    column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
  );
  return `  ${cells.join("   ")}`;
}

function formatMemory(use: MemoryUse): string {
  return `${formatBytes(use.peakBytes)} (+${formatBytes(growth(use)).padStart(8)})`;
}

function growth({ idleBytes, peakBytes }: MemoryUse): number {
  return Math.max(0, peakBytes - idleBytes);
}
