import { systemClock } from "@sluice/core/async";
import type { EventSourceMessage } from "eventsource-parser";
import { createEventReader } from "../protocol/event-reader.ts";

/** One connection that brings events. */
export interface EventConnection {
  /** The events until it ends, cleanly or not; the last one is whole or absent. */
  events(): AsyncGenerator<EventSourceMessage>;
  /** Ends it from this side; `events` then ends, too. */
  readonly cut: () => void;
}

/** What {@link openEvents} needs. */
export interface EventConnectionOptions {
  readonly maxEventLength: number;
  /** Milliseconds without a byte after which it ends. */
  readonly idleMs: number;
  /** Called with each `retry` of the server, in milliseconds. */
  readonly onRetry: (ms: number) => void;
}

/** Reads a body of server-sent events. Throws `too_large` for an endless one; a broken body is an end. */
export function openEvents(
  body: ReadableStream<Uint8Array>,
  { maxEventLength, idleMs, onRetry }: EventConnectionOptions,
): EventConnection {
  const reader = body.getReader();
  const cut = (): void => void reader.cancel().catch(() => {});

  async function* events(): AsyncGenerator<EventSourceMessage> {
    const read = createEventReader({ operation: "client", maxEventLength, onRetry });
    try {
      for (;;) {
        const cancelIdle = systemClock.schedule(cut, idleMs);
        const { done, value } = await reader
          .read()
          .catch(() => ({ done: true as const, value: undefined }))
          .finally(cancelIdle);
        if (done) return;
        yield* read(value);
      }
    } finally {
      cut();
    }
  }

  return { events, cut };
}
