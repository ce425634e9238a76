import type { S3EventMessage, S3EventSource } from "@sluice/storage-s3";

/** A queue in memory that is as unreliable as a real one: messages may come again and out of order. */
export interface EventQueue extends S3EventSource {
  push(body: string): void;
  /** Messages that were not deleted. */
  count(): number;
}

const batchSize = 10;

export function createEventQueue(): EventQueue {
  const waiting: S3EventMessage[] = [];
  const given = new Set<S3EventMessage>();
  let wake: (() => void) | undefined;
  return {
    push(body) {
      waiting.push({ body });
      // every third one comes twice
      if (waiting.length % 3 === 0) waiting.push({ body });
      wake?.();
    },
    count: () => waiting.length + given.size,
    async receive({ signal }) {
      if (waiting.length === 0 && !signal.aborted)
        await new Promise<void>((resolve) => {
          wake = resolve;
          signal.addEventListener("abort", () => resolve(), { once: true });
        });
      if (signal.aborted) return [];
      const batch = waiting.splice(0, batchSize).toReversed();
      for (const message of batch) given.add(message);
      return batch;
    },
    async ack(messages) {
      for (const message of messages) given.delete(message);
    },
  };
}
