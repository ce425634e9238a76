import { createParser, type EventSourceMessage } from "eventsource-parser";

/** Longest line or event that is looked at, in characters. */
const maxEventLength = 64 * 1024 * 1024;

/** What {@link eachEvent} can be told. */
export interface EventReading {
  /** Called for each event in turn; the next one waits for it. */
  readonly onEvent: (event: EventSourceMessage) => Promise<void>;
  readonly onRetry: (ms: number) => void;
  /** Ends the reading; the body is cancelled. */
  readonly signal: AbortSignal;
}

/** Reads server-sent events until the body ends; rejects when it breaks. */
export async function eachEvent(
  body: ReadableStream<Uint8Array>,
  { onEvent, onRetry, signal }: EventReading,
): Promise<void> {
  const arrived: EventSourceMessage[] = [];
  const parser = createParser({
    onEvent: (event) => void arrived.push(event),
    onRetry,
    maxBufferSize: maxEventLength,
  });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  const stop = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      for (const event of arrived.splice(0)) await onEvent(event);
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}
