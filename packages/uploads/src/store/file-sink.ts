import { type AnnouncedFile, type CheckedFile, createFileChecks } from "../checks/file-checks.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { UploadStorage } from "./upload-storage.ts";
import { bothOf, WriteQueue } from "./write-queue.ts";

/** What a file has to be. */
export interface FileTerms extends AnnouncedFile {
  readonly maxBytes: number;
  /** Bytes that were announced. */
  readonly size?: number | undefined;
}

/** Takes the bytes of one file. */
export interface FileSink {
  /** A promise means that the next chunk has to wait. Throws what ends the file. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Checks the whole and makes it an object, which cannot be read yet. */
  finish(): Promise<CheckedFile>;
  /** Leaves nothing behind. */
  abort(): Promise<void>;
}

/**
 * Opens a sink for one file: it counts, hashes, looks at the beginning and writes, with less than 1 MiB in memory, not
 * counting the storage writer's own buffers.
 */
export async function openFileSink(
  storage: UploadStorage,
  key: string,
  terms: FileTerms,
  {
    signal,
    beforeCommit,
  }: {
    readonly signal: AbortSignal;
    /** What it throws ends the file. */
    readonly beforeCommit?: () => void;
  },
): Promise<FileSink> {
  const { maxBytes, size } = terms;
  const writer = await storage.write(key, { signal, ...(size !== undefined && { size }) });
  const queue = new WriteQueue((chunk) => writer.write(chunk));
  const checks = createFileChecks({ ...terms, expectedBytes: size ?? terms.expectedBytes });
  let received = 0;
  let committed = false;

  return {
    write(chunk) {
      received += chunk.byteLength;
      if (received > maxBytes)
        throw new RefusedFile("too_large", `more than ${maxBytes} bytes came`);
      if (size !== undefined && received > size)
        throw uploadError("invalid_argument", `more than the announced ${size} bytes came`);
      const checking = checks.add(chunk);
      const queueing = queue.push(chunk);
      return bothOf(checking, queueing);
    },
    async finish() {
      if (size !== undefined && received < size)
        throw uploadError("invalid_argument", `${received} of ${size} bytes came`);
      const checked = await checks.conclude();
      await queue.drain();
      beforeCommit?.();
      await writer.commit();
      committed = true;
      return checked;
    },
    async abort() {
      checks.stop();
      await queue.drain().catch(() => {});
      if (committed) await storage.remove(key);
      else await writer.abort();
    },
  };
}
