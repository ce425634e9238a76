import { ByteQueue } from "@sluice/core/internal";

/** Maximum bytes that wait in one queue. The last chunk may exceed it. */
const maxQueuedBytes = 512 * 1024;
/** The same for all queues of this process. */
const maxQueuedBytesInProcess = 2 * 1024 * 1024;
let busyQueues = 0;

/**
 * Feeds chunks to a `consume` that takes one at a time. While it is busy the reader may queue up to 512 KiB, and
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
    const limit = Math.min(maxQueuedBytes, maxQueuedBytesInProcess / busyQueues);
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
