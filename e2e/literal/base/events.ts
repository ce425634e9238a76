import type { Message } from "./message.ts";

/** One event of a stream of events (WHATWG HTML, section 9.2). */
export interface Event {
  readonly id?: string;
  readonly data?: string;
  readonly retry?: number;
}

/** The events of a body, each as soon as its empty line has come. */
export async function* eventsOf(body: AsyncIterable<Buffer>): AsyncGenerator<Event> {
  let text = "";
  for await (const chunk of body) {
    text += chunk.toString("utf8").replaceAll("\r\n", "\n");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = eventOf(text.slice(0, end));
      text = text.slice(end + 2);
      if (event) yield event;
    }
  }
}

function eventOf(block: string): Event | undefined {
  const event: { id?: string; data?: string; retry?: number } = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "id") event.id = value;
    if (name === "retry") event.retry = Number(value);
    if (name === "data") event.data = event.data === undefined ? value : `${event.data}\n${value}`;
  }
  return Object.keys(event).length > 0 ? event : undefined;
}

/** The message in an event, if it has one. */
export function messageIn(event: Event): Message | undefined {
  return event.data ? (JSON.parse(event.data) as Message) : undefined;
}
