import type { FileChecks } from "../checks/file-checks.ts";

/** Keeps the checks of files between two steps, so that a file whose steps come to one process is not read again. */
export interface ChecksMemory {
  /** Takes the checks of a file that have seen its first `offset` bytes, and none else. */
  take(fileId: string, offset: number): FileChecks | undefined;
  /** Keeps checks for the next step. */
  put(fileId: string, checks: FileChecks): void;
  /** Forgets all files. */
  clear(): void;
}

/** A few kilobytes each. */
const maxFiles = 1_000;
const maxAgeMs = 3_600_000;

/** Makes the memory of one process: at most 1,000 files, for an hour each. */
export function createChecksMemory(): ChecksMemory {
  // in the order in which they came
  const kept = new Map<string, { readonly checks: FileChecks; readonly since: number }>();

  function drop(fileId: string): void {
    kept.get(fileId)?.checks.stop();
    kept.delete(fileId);
  }

  return {
    take(fileId, offset) {
      const found = kept.get(fileId);
      if (found?.checks.bytes !== offset) {
        drop(fileId);
        return undefined;
      }
      kept.delete(fileId);
      return found.checks;
    },
    put(fileId, checks) {
      drop(fileId);
      checks.pause();
      const now = Date.now();
      kept.set(fileId, { checks, since: now });
      for (const [oldest, { since }] of kept) {
        if (kept.size <= maxFiles && now - since < maxAgeMs) break;
        drop(oldest);
      }
    },
    clear() {
      for (const fileId of kept.keys()) drop(fileId);
    },
  };
}
