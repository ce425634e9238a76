import { definedMembers } from "@sluice/core";
import { createKindDetector } from "../kind/detect-kind.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { FileRecord } from "../store/layout.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import { createFileHash } from "./file-hash.ts";
import { createWriteQueue } from "./write-queue.ts";

/** What a file has to be. */
export interface FileTerms {
  readonly name?: string | undefined;
  readonly declaredType?: string | undefined;
  readonly accept: readonly string[];
  readonly maxBytes: number;
  /** Bytes that were announced. */
  readonly size?: number | undefined;
  /** About as many, where no number was announced. */
  readonly expectedBytes?: number | undefined;
  /** Digest that was announced, lower-case hex. */
  readonly sha256?: string | undefined;
}

/** Takes the bytes of one file. */
export interface FileSink {
  /** A promise means that the next chunk has to wait. Throws what ends the file. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Checks the whole and makes it an object, which cannot be read yet. */
  finish(): Promise<Omit<FileRecord, "fileId" | "scan">>;
  /** Leaves nothing behind. */
  abort(): Promise<void>;
}

/**
 * Opens a sink for one file: it counts, hashes, looks at the beginning and writes, with less than a
 * megabyte in memory beside what storage holds.
 */
export async function createFileSink(
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
  const { name, declaredType, accept, maxBytes, size, sha256: wanted } = terms;
  const writer = await storage.write(key, { signal, ...(size !== undefined && { size }) });
  const queue = createWriteQueue((chunk) => writer.write(chunk));
  const hash = createFileHash(size ?? terms.expectedBytes);
  const detector = createKindDetector({ name, declaredType }, accept);
  let received = 0;
  let committed = false;

  return {
    write(chunk) {
      received += chunk.byteLength;
      if (received > maxBytes)
        throw new RefusedFile("too_large", `more than ${maxBytes} bytes came`);
      if (size !== undefined && received > size)
        throw uploadError("invalid_argument", `more than the announced ${size} bytes came`);
      const waits = [hash.update(chunk), queue.push(chunk), detector.add(chunk)];
      return waits.some((wait) => wait !== undefined) ? settled(waits) : undefined;
    },
    async finish() {
      const mimeType = await detector.kind();
      if (size !== undefined && received < size)
        throw uploadError("invalid_argument", `${received} of ${size} bytes came`);
      const sha256 = await hash.digest();
      if (wanted !== undefined && wanted !== sha256)
        throw new RefusedFile(
          "corrupt",
          "the bytes do not match the digest that was sent with them",
        );
      await queue.drain();
      beforeCommit?.();
      await writer.commit();
      committed = true;
      return definedMembers({
        name,
        size: received,
        mimeType,
        declaredType: declaredType === mimeType ? undefined : declaredType,
        sha256,
      });
    },
    async abort() {
      hash.stop();
      await queue.drain().catch(() => {});
      if (committed) await storage.remove(key);
      else await writer.abort();
    },
  };
}

async function settled(waits: readonly unknown[]): Promise<void> {
  await Promise.all(waits);
}
