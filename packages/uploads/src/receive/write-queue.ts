import { ByteQueue } from "@sluice/core";

/** Chunks on their way into something that takes one at a time. */
export interface WriteQueue {
  /** A promise means: too much is waiting, give the next one when it resolves. Throws what went wrong before. */
  push(chunk: Uint8Array): Promise<void> | undefined;
  /** Waits until everything was taken. */
  drain(): Promise<void>;
}

/** Lets the reader go on while `consume` is busy with up to `maxBytes`. */
export function createWriteQueue(
  consume: (chunk: Uint8Array) => Promise<void>,
  maxBytes: number = 512 * 1024,
): WriteQueue {
  const waiting = new ByteQueue();
  let waitingBytes = 0;
  let running: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;

  async function run(): Promise<void> {
    while (waiting.bytes > 0) {
      for (const chunk of waiting.take()) {
        await consume(chunk);
        waitingBytes -= chunk.byteLength;
      }
    }
    running = undefined;
  }

  return {
    push(chunk) {
      if (failure) throw failure.error;
      waiting.push(chunk);
      waitingBytes += chunk.byteLength;
      if (!running) {
        running = run();
        running.catch((error: unknown) => void (failure = { error }));
      }
      return waitingBytes > maxBytes ? running : undefined;
    },
    async drain() {
      if (failure) throw failure.error;
      await running;
    },
  };
}
