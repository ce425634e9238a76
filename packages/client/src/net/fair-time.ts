const longestMs = 6 * 3_600_000;

/** How long so many bytes may take, in milliseconds: 60 s and 1 s for every 64 KiB, at most 6 h. */
export function fairMsOf(bytes: number): number {
  return Math.min(60_000 + (bytes / 65_536) * 1_000, longestMs);
}
