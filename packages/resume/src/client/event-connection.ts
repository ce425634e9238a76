import { SluiceError } from "@sluice/core";
import { createParser, type EventSourceMessage } from "eventsource-parser";

/** One connection that brings events. */
export interface EventConnection {
  /** The events until it ends, cleanly or not; the last one is whole or not there. */
  events(): AsyncGenerator<EventSourceMessage>;
  /** Ends it from this side; `events` then ends, too. */
  readonly cut: () => void;
}

/** What {@link openEvents} is told. */
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
  const arrived: EventSourceMessage[] = [];
  let isTooLong = false;
  const parser = createParser({
    onEvent: (event) => void arrived.push(event),
    onRetry,
    onError: ({ type }) => (isTooLong ||= type === "max-buffer-size-exceeded"),
    maxBufferSize: maxEventLength,
  });
  const cut = (): void => void reader.cancel().catch(() => {});

  async function* events(): AsyncGenerator<EventSourceMessage> {
    const decoder = new TextDecoder();
    try {
      for (;;) {
        const idle = setTimeout(cut, idleMs);
        const { done, value } = await reader
          .read()
          .catch(() => ({ done: true as const, value: undefined }))
          .finally(() => clearTimeout(idle));
        if (done) return;
        parser.feed(decoder.decode(value, { stream: true }));
        if (isTooLong || arrived.some(({ data }) => data.length > maxEventLength))
          throw new SluiceError(
            "too_large",
            "client: an event of the server is longer than agreed",
          );
        yield* arrived.splice(0);
      }
    } finally {
      cut();
    }
  }

  return { events, cut };
}
