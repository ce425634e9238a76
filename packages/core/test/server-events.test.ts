import { expect, test } from "vitest";
import { createEventReader, eventsIn, isEventStream, type ServerEvent } from "../src/internal.ts";

const text =
  ": a comment\n\nretry: 250\nid: a/1\nevent: message\ndata: {\ndata:\t}\n\ndata\r\nid:\r\n\r\rdata: ü\u2028 \r\rdata: 1\n\n";

const expected = [
  { raw: ": a comment\n\n" },
  {
    raw: "retry: 250\nid: a/1\nevent: message\ndata: {\ndata:\t}\n\n",
    retryMs: 250,
    id: "a/1",
    event: "message",
    data: "{\n\t}",
  },
  { raw: "data\r\nid:\r\n\r", data: "", id: "" },
  { raw: "\rdata: ü\u2028 \r\r", data: "ü\u2028 " },
  { raw: "data: 1\n\n", data: "1" },
];

function readIn(bytes: Uint8Array, size: number, maxEventLength?: number): ServerEvent[] {
  const options = { operation: "test", ...(maxEventLength !== undefined && { maxEventLength }) };
  const reader = createEventReader(options);
  const events: ServerEvent[] = [];
  for (let at = 0; at < bytes.length; at += size)
    events.push(...reader.read(bytes.subarray(at, at + size)));
  return events;
}

test("events are found with every line end, wherever the chunks are cut", () => {
  const bytes = new TextEncoder().encode(`\ufeff${text}`);
  for (let size = 1; size <= bytes.length; size += 1)
    expect(readIn(bytes, size), `chunks of ${size}`).toEqual(expected);
});

test("odd fields follow HTML: no NUL in an id, digits in retry, unknown names mean nothing", () => {
  const bytes = new TextEncoder().encode("id: a\0\nretry: 1e3\nevent:\nnext: 1\ndata:  x\n\n");
  const [event] = readIn(bytes, bytes.length);
  expect(event).toEqual({ raw: expect.any(String), data: " x" });
});

test("an event over the limit is refused, whole or in pieces, and without its end", () => {
  const bytes = new TextEncoder().encode("data: 12\n\ndata: 1234567890");
  for (const size of [1, 7, bytes.length])
    expect(() => readIn(bytes, size, 15)).toThrow(
      expect.objectContaining({ code: "too_large", message: expect.stringMatching(/^test: /) }),
    );
  expect(readIn(bytes, 3, 16)).toHaveLength(1);
});

test("the events of a body come with their messages; an incomplete one is the last", async () => {
  const message = { jsonrpc: "2.0", id: 1, result: {} };
  const body = new Response(`: hi\n\ndata: no JSON\n\ndata: ${JSON.stringify(message)}`).body!;
  const events = [];
  for await (const event of eventsIn(body, { operation: "test" })) events.push(event);
  expect(events.map((event) => event.message)).toEqual([undefined, undefined, message]);
});

test("a content type is that of events whatever its parameters and its case", () => {
  for (const [type, isEvents] of [
    ["text/event-stream", true],
    ["Text/Event-Stream; charset=utf-8", true],
    ["text/event-streams", false],
    ["application/json", false],
  ] as const)
    expect(isEventStream(new Headers({ "content-type": type })), type).toBe(isEvents);
  expect(isEventStream(new Headers())).toBe(false);
});
