import { SluiceError } from "../errors/error.ts";
import { parseMediaType } from "../headers/media-type.ts";
import { readRpc, type RpcMessage } from "./message.ts";

/** One event of a stream of server-sent events (HTML, section 9.2.6), or what is between two: comments, a `retry`. */
export interface ServerEvent {
  /** As it came, with the empty line that ends it. */
  readonly raw: string;
  /** Absent in comments and in an event without data. */
  readonly data?: string;
  readonly id?: string;
  readonly event?: string;
  /** Milliseconds to wait before the next connection. */
  readonly retryMs?: number;
}

/** Options of {@link createEventReader}. */
export interface EventReaderOptions {
  /** Begins the message of an error. */
  readonly operation: string;
  /** Longest event, in characters. Default: no limit. */
  readonly maxEventLength?: number;
}

/** Gives the events that end in a chunk. */
export interface EventReader {
  /** Throws `too_large` for an event that is too long. */
  read(bytes: Uint8Array): ServerEvent[];
  /** The beginning of an event that has no end yet. */
  readonly rest: string;
}

/** Makes a reader of the chunks of one body. */
export function createEventReader(options: EventReaderOptions): EventReader {
  const { operation, maxEventLength = Infinity } = options;
  const decoder = new TextDecoder();
  /** The pieces of an event so far: a long one is joined once. */
  let pieces: string[] = [];
  let length = 0;
  /** The last characters of the pieces: an empty line may begin in them. */
  let tail = "";
  /** A line feed that comes next belongs to the carriage return that ended the last event. */
  let isAfterCr = false;

  function ensureLength(more: number): void {
    if (length + more > maxEventLength)
      throw new SluiceError(
        "too_large",
        `${operation}: an event of the server is longer than agreed`,
      );
  }

  return {
    read(bytes) {
      const events: ServerEvent[] = [];
      let text = decoder.decode(bytes, { stream: true });
      if (isAfterCr && bytes.length > 0) {
        if (text.startsWith("\n")) text = text.slice(1);
        isAfterCr = false;
      }
      for (let end = endIn(tail, text); end !== undefined; end = endIn(tail, text)) {
        ensureLength(end);
        events.push(parseEvent([...pieces, text.slice(0, end)].join("")));
        pieces = [];
        length = 0;
        tail = "";
        isAfterCr = text.length === end && text.endsWith("\r");
        text = text.slice(end);
      }
      ensureLength(text.length);
      length += text.length;
      pieces.push(text);
      tail = (tail + text).slice(-3);
      return events;
    },
    get rest() {
      return pieces.join("");
    },
  };
}

/**
 * The events of a body, each with the JSON-RPC message in its data. An event that is incomplete
 * when the body ends is the last one.
 */
export async function* eventsIn(
  body: ReadableStream<Uint8Array>,
  options: EventReaderOptions,
): AsyncGenerator<RpcEvent, void, undefined> {
  const reader = body.getReader();
  const events = createEventReader(options);
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read())
      for (const event of events.read(step.value)) yield withMessage(event);
    if (events.rest !== "") yield withMessage(parseEvent(events.rest));
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** An event and the JSON-RPC message in its data; none in comments and everything else. */
export interface RpcEvent extends ServerEvent {
  readonly message?: RpcMessage;
}

/** True for headers of a body of server-sent events. */
export function isEventStream(headers: Headers): boolean {
  return parseMediaType(headers.get("content-type"))?.essence === "text/event-stream";
}

/** Where the first empty line of `text` ends, which may begin in what came before it. */
function endIn(tail: string, text: string): number | undefined {
  const end = /(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/.exec(tail + text);
  return end ? end.index + end[0].length - tail.length : undefined;
}

function parseEvent(raw: string): ServerEvent {
  const event: { -readonly [Name in keyof ServerEvent]: ServerEvent[Name] } = { raw };
  for (const line of raw.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") event.data = event.data === undefined ? value : `${event.data}\n${value}`;
    else if (name === "id" && !value.includes("\0")) event.id = value;
    else if (name === "event") event.event = value;
    else if (name === "retry" && /^\d+$/.test(value)) event.retryMs = Number(value);
  }
  // an empty type is that of messages, also after another one
  if (event.event === "") delete event.event;
  return event;
}

/** True for an event of the type `message`: any other one has no JSON-RPC for an SDK, whatever its data. */
export function isMessageEvent({
  event = "message",
}: {
  readonly event?: string | undefined;
}): boolean {
  return event === "message";
}

function withMessage(event: ServerEvent): RpcEvent {
  const { message } = isMessageEvent(event) ? readRpc(event.data ?? "") : {};
  return message ? { ...event, message } : event;
}
