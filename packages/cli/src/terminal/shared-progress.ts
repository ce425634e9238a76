import type { ProgressBar } from "./progress-bar.ts";

/** How far one of several downloads is. */
export type ReportProgress = (receivedBytes: number, size?: number) => void;

/**
 * Shows `count` downloads on one bar: the bytes of all, and of how many once each has told its size. Gives a function for
 * each download.
 */
export function shareProgress(bar: ProgressBar, count: number): () => ReportProgress {
  let receivedBytes = 0;
  let totalBytes = 0;
  let sized = 0;
  return () => {
    let received = 0;
    let told: number | undefined;
    return (bytes, size) => {
      receivedBytes += bytes - received;
      received = bytes;
      if (size !== undefined) {
        if (told === undefined) sized += 1;
        totalBytes += size - (told ?? 0);
        told = size;
      }
      bar.update(receivedBytes, sized === count ? totalBytes : undefined);
    };
  };
}
