import { parseMediaType, SluiceError } from "@sluice/core";
import { createParser, type EventSourceMessage } from "eventsource-parser";

/** What {@link createEventReader} needs. */
export interface EventReaderOptions {
  /** Begins the message of an error. */
  readonly operation: string;
  /** Longest event, in characters. */
  readonly maxEventLength: number;
  /** Called with each `retry`, in milliseconds. */
  readonly onRetry: (ms: number) => void;
}

/** Finds server-sent events in the chunks of a body: gives those that end in a chunk. */
export type EventReader = (bytes: Uint8Array) => EventSourceMessage[];

/**
 * Makes a reader of one body, which throws `too_large` for an event that is too long. It holds nothing behind a chunk
 * that {@link endsEvent}.
 */
export function createEventReader(options: EventReaderOptions): EventReader {
  const { operation, maxEventLength, onRetry } = options;
  const arrived: EventSourceMessage[] = [];
  const decoder = new TextDecoder();
  let isTooLong = false;
  const parser = createParser({
    onEvent: (event) => void arrived.push(event),
    onRetry,
    onError: ({ type }) => (isTooLong ||= type === "max-buffer-size-exceeded"),
    maxBufferSize: maxEventLength,
  });
  return (bytes) => {
    parser.feed(decoder.decode(bytes, { stream: true }));
    if (isTooLong || arrived.some(({ data }) => data.length > maxEventLength))
      throw new SluiceError(
        "too_large",
        `${operation}: an event of the server is longer than agreed`,
      );
    return arrived.splice(0);
  };
}

/** True when no event has begun behind the last one of a chunk. */
export function endsEvent(bytes: Uint8Array): boolean {
  return bytes.at(-1) === newline && bytes.at(-2) === newline;
}

/** True for headers of a body of server-sent events. */
export function hasEvents(headers: Headers): boolean {
  return parseMediaType(headers.get("content-type"))?.essence === "text/event-stream";
}

const newline = 10;
