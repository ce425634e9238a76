import { formatBytes, formatDuration } from "./quantity.ts";

/** Counts what a run with several files did. */
export class Tally {
  readonly #startedAt = performance.now();
  readonly #moved: string;
  readonly #skipped: string;
  #movedFiles = 0;
  #skippedFiles = 0;
  #bytes = 0;

  /** The words for a file that was moved, and for one that did not need to be. */
  constructor(moved: string, skipped: string) {
    this.#moved = moved;
    this.#skipped = skipped;
  }

  add(isMoved: boolean, bytes: number): void {
    if (isMoved) this.#movedFiles += 1;
    else this.#skippedFiles += 1;
    this.#bytes += bytes;
  }

  /** One line such as `12 saved, 3 there already, 1 refused: 407 MiB in 2.1 s (190 MiB/s)`. */
  summary(refusedFiles: number): string {
    const durationMs = performance.now() - this.#startedAt;
    const rate = formatBytes((this.#bytes / durationMs) * 1000);
    const counts = [
      `${this.#movedFiles} ${this.#moved}`,
      ...(this.#skippedFiles > 0 ? [`${this.#skippedFiles} ${this.#skipped}`] : []),
      ...(refusedFiles > 0 ? [`${refusedFiles} refused`] : []),
    ];
    return `${counts.join(", ")}: ${formatBytes(this.#bytes)} in ${formatDuration(durationMs)} (${rate}/s)`;
  }
}
