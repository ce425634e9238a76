import { expect, test } from "vitest";
import { createEventReader, createIdEventFiller } from "../src/internal.ts";
import { eventStreams } from "./event-streams.ts";

const encoder = new TextEncoder();

function chunksOf(text: string, size: number): Uint8Array[] {
  const bytes = encoder.encode(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
}

function filled(text: string, size: number): string {
  const fill = createIdEventFiller();
  return Buffer.concat(chunksOf(text, size).map(fill)).toString();
}

test.each(eventStreams)("the reader agrees with HTML on $name", ({ text, events, lastEventId }) => {
  for (const size of [1, 2, 3, text.length + 3]) {
    const reader = createEventReader({ operation: "test" });
    const read = chunksOf(text, size).flatMap((chunk) => reader.read(chunk));
    const dispatched = read.flatMap(({ event: type = "message", data, id }) =>
      data === undefined ? [] : [{ type, data, ...(id !== undefined && { id }) }],
    );
    expect(dispatched).toEqual(events);
    expect(read.reduce((last, { id }) => id ?? last, "")).toBe(lastEventId);
  }
});

test.each(eventStreams)("the filler adds data to $name if only its id counts", ({ text }) => {
  const whole = filled(text, text.length + 3);
  for (const size of [1, 2, 3, 5]) expect(filled(text, size)).toBe(whole);
  // nothing but empty data is added
  expect(whole.replaceAll("data:\n", "")).toBe(text.replaceAll("data:\n", ""));
});

test.each([
  ["id: a\n\n", "id: a\ndata:\n\n"],
  ["id: a\r\n\r\n", "id: a\r\ndata:\n\r\n"],
  ["id: a\r\r", "id: a\rdata:\n\r"],
  ["id\n\n", "id\ndata:\n\n"],
  ["id: a\n\nid: b\n\n", "id: a\ndata:\n\nid: b\ndata:\n\n"],
  ["id: a\ndata: 1\n\n", "id: a\ndata: 1\n\n"],
  ["data\nid: a\n\n", "data\nid: a\n\n"],
  [": a\n\n\n\n", ": a\n\n\n\n"],
  ["id: a\n", "id: a\n"],
])("%j becomes %j", (text, expected) => {
  for (const size of [1, 2, 3, 100]) expect(filled(text, size)).toBe(expected);
});

test("the filler takes a long stream of short lines in linear time", () => {
  const fill = createIdEventFiller();
  const began = performance.now();
  for (const line of ["\r", "\n", "\r\n"]) fill(encoder.encode(line.repeat(2 ** 20)));
  expect(performance.now() - began).toBeLessThan(20_000);
}, 120_000);
