import { ByteQueue } from "@sluice/core/internal";
import { type AnnouncedFile, type CheckedFile, createFileChecks } from "../checks/file-checks.ts";
import { RefusedFile, uploadError } from "../slots/upload-error.ts";
import type { UploadStorage } from "./upload-storage.ts";

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

/** Maximum bytes that wait in one queue. The last chunk may exceed it. */
const maxBytes = 512 * 1024;
/** The same for all queues of this process. */
const maxBytesOfAll = 2 * 1024 * 1024;
let busyQueues = 0;

/**
 * Feeds chunks to a `consume` that takes one at a time. While it is busy the reader may go on for up to 512 KiB, and
 * less if many queues are busy.
 */
export class WriteQueue {
  readonly #consume: (chunk: Uint8Array) => Promise<void>;
  readonly #waiting = new ByteQueue();
  #waitingBytes = 0;
  #running: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(consume: (chunk: Uint8Array) => Promise<void>) {
    this.#consume = consume;
  }

  /** A promise means: too much is waiting, give the next one when it resolves. Throws what went wrong before. */
  push(chunk: Uint8Array): Promise<void> | undefined {
    if (this.#failure) throw this.#failure.error;
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.byteLength;
    if (!this.#running) {
      this.#running = this.#run();
      this.#running.catch((error: unknown) => void (this.#failure = { error }));
    }
    const limit = Math.min(maxBytes, maxBytesOfAll / busyQueues);
    return this.#waitingBytes > limit ? this.#running : undefined;
  }

  async drain(): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    await this.#running;
  }

  async #run(): Promise<void> {
    busyQueues += 1;
    try {
      while (this.#waiting.bytes > 0) {
        for (const chunk of this.#waiting.take()) {
          const { byteLength } = chunk;
          await this.#consume(chunk);
          this.#waitingBytes -= byteLength;
        }
      }
    } finally {
      busyQueues -= 1;
    }
    this.#running = undefined;
  }
}

/** Waits for both, if there is anything to wait for. */
export function bothOf(
  one: Promise<unknown> | undefined,
  other: Promise<unknown> | undefined,
): Promise<void> | undefined {
  return one || other ? Promise.all([one, other]).then(() => undefined) : undefined;
}
