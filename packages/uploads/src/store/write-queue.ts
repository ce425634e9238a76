import { ByteQueue } from "@sluice/core";

/** Chunks on their way into something that takes one at a time. */
export interface WriteQueue {
  /** A promise means: too much is waiting, give the next one when it resolves. Throws what went wrong before. */
  push(chunk: Uint8Array): Promise<void> | undefined;
  /** Waits until everything was taken. */
  drain(): Promise<void>;
}

/** Bytes that wait in one queue, at most, and in all queues of this process together, but for one chunk of each. */
const mostBytes = 512 * 1024;
const mostBytesOfAll = 2 * 1024 * 1024;
/** Queues in which something waits. */
let busyQueues = 0;

/** Lets the reader go on while `consume` is busy with up to 512 KiB; with less where many queues are busy. */
export function createWriteQueue(consume: (chunk: Uint8Array) => Promise<void>): WriteQueue {
  const waiting = new ByteQueue();
  let waitingBytes = 0;
  let running: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;

  async function run(): Promise<void> {
    busyQueues += 1;
    try {
      while (waiting.bytes > 0) {
        for (const chunk of waiting.take()) {
          const { byteLength } = chunk;
          await consume(chunk);
          waitingBytes -= byteLength;
        }
      }
    } finally {
      busyQueues -= 1;
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
      const most = Math.min(mostBytes, mostBytesOfAll / busyQueues);
      return waitingBytes > most ? running : undefined;
    },
    async drain() {
      if (failure) throw failure.error;
      await running;
    },
  };
}
