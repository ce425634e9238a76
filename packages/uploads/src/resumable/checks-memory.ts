import type { FileChecks } from "../checks/file-checks.ts";

/** A few kilobytes each. */
const maxFiles = 1_000;
const maxAgeMs = 3_600_000;

/**
 * Keeps the checks of files between two steps, so that a file whose steps come to one process is not read again: of at
 * most 1,000 files, for an hour each.
 */
export class ChecksMemory {
  /** In the order in which they came. */
  readonly #kept = new Map<string, { readonly checks: FileChecks; readonly since: number }>();

  /** Takes the checks of a file that have seen exactly its first `offset` bytes. */
  take(fileId: string, offset: number): FileChecks | undefined {
    const found = this.#kept.get(fileId);
    if (found?.checks.bytes !== offset) {
      this.#drop(fileId);
      return undefined;
    }
    this.#kept.delete(fileId);
    return found.checks;
  }

  put(fileId: string, checks: FileChecks): void {
    this.#drop(fileId);
    checks.pause();
    const now = Date.now();
    this.#kept.set(fileId, { checks, since: now });
    for (const [oldest, { since }] of this.#kept) {
      if (this.#kept.size <= maxFiles && now - since < maxAgeMs) break;
      this.#drop(oldest);
    }
  }

  clear(): void {
    for (const fileId of this.#kept.keys()) this.#drop(fileId);
  }

  #drop(fileId: string): void {
    this.#kept.get(fileId)?.checks.stop();
    this.#kept.delete(fileId);
  }
}
