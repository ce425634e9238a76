import type { FileHandle } from "node:fs/promises";

/** This many bytes are written before a flush to disk begins. */
const stepBytes = 32 * 1024 * 1024;

/** Flushes a large file while it is still being written. */
export interface FlushBehind {
  /** Bytes were written. Waits for nothing. */
  wrote(bytes: number): void;
  /** Waits for flushes in progress; rejects when any of them failed, since the system says that only once. */
  settle(): Promise<void>;
}

/** The disk works while the sender sends, so that the flush at the end has little left to wait for. */
export function createFlushBehind(file: FileHandle): FlushBehind {
  let pending = 0;
  let flushing: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;
  return {
    wrote(bytes) {
      pending += bytes;
      if (flushing || pending < stepBytes) return;
      pending = 0;
      flushing = file
        .datasync()
        .catch((error: unknown) => void (failure ??= { error }))
        .finally(() => void (flushing = undefined));
    },
    async settle() {
      await flushing;
      if (failure) throw failure.error;
    },
  };
}
