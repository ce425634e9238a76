import { createParser, type EventSourceMessage } from "eventsource-parser";

/** Longest line or event that is looked at, in characters. */
const maxEventLength = 64 * 1024 * 1024;

/** Finds server-sent events in the chunks of a body: gives those that end in a chunk. */
export type EventReader = (bytes: Uint8Array) => EventSourceMessage[];

/** Makes a reader of one body. Nothing is left in it behind a chunk that {@link endsEvent}. */
export function createEventReader(onRetry: (ms: number) => void): EventReader {
  const arrived: EventSourceMessage[] = [];
  const decoder = new TextDecoder();
  const parser = createParser({
    onEvent: (event) => void arrived.push(event),
    onRetry,
    maxBufferSize: maxEventLength,
  });
  return (bytes) => {
    parser.feed(decoder.decode(bytes, { stream: true }));
    return arrived.splice(0);
  };
}

/** True when no event has begun behind the last one of a chunk. */
export function endsEvent(bytes: Uint8Array): boolean {
  return bytes.at(-1) === newline && bytes.at(-2) === newline;
}

const newline = 10;
