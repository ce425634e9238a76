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
  const reader = body.getReader();
  const stop = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  let reading: ReturnType<typeof startReading> | undefined;
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      reading ??= startReading(onRetry);
      for (const event of reading.take(value)) await onEvent(event);
      // between events nothing is left in it, and a request may wait for long
      if (endsEvent(value)) reading = undefined;
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}

function startReading(onRetry: (ms: number) => void) {
  const arrived: EventSourceMessage[] = [];
  const decoder = new TextDecoder();
  const parser = createParser({
    onEvent: (event) => void arrived.push(event),
    onRetry,
    maxBufferSize: maxEventLength,
  });
  return {
    take(bytes: Uint8Array): EventSourceMessage[] {
      parser.feed(decoder.decode(bytes, { stream: true }));
      return arrived.splice(0);
    },
  };
}

function endsEvent(bytes: Uint8Array): boolean {
  return bytes.at(-1) === newline && bytes.at(-2) === newline;
}

const newline = 10;
