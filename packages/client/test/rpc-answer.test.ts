import type { ByteFlow } from "@sluice/core";
import { createIdEventFiller } from "@sluice/core/internal";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { expect, test } from "vitest";
import { eventStreams } from "../../core/test/event-streams.ts";
import { watchEvents } from "../src/calls/event-answer.ts";

function flowOf(...texts: readonly string[]): ByteFlow {
  return {
    async pump(take) {
      for (const text of texts) await take(new TextEncoder().encode(text));
    },
    cancel() {},
  };
}

async function watched(...texts: readonly string[]): Promise<{ text: string; faults: string[] }> {
  const faults: string[] = [];
  const call = { what: "a call", id: 1, answerMs: 10_000 };
  const body = watchEvents(flowOf(...texts), call, ({ code }) => void faults.push(code));
  return { text: await new Response(body).text(), faults };
}

test("events go through to the answer as they came, however they are cut", async () => {
  const events =
    'retry: 5\n\ndata: {"method":"notifications/progress"}\n\ndata: {"id":1,"result":{}}\n\n';
  for (let at = 1; at < events.length; at++)
    expect(await watched(events.slice(0, at), events.slice(at))).toEqual({
      text: events,
      faults: [],
    });
});

test("a stream with the id of an event ends as it is: an SDK goes on with it elsewhere", async () => {
  expect(await watched("id: 7\ndata:\n\n")).toEqual({ text: "id: 7\ndata:\n\n", faults: [] });
});

test.each(eventStreams)(
  "the parser that SDKs use agrees with HTML on $name, once its ids have data",
  ({ text, events, lastEventId }) => {
    const seen: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (event) => void seen.push(event) });
    const bytes = createIdEventFiller()(new TextEncoder().encode(text));
    parser.feed(new TextDecoder().decode(bytes));
    // it leaves a last CR for the next chunk
    parser.feed("\n");
    const dispatched = seen.map(({ event: type = "message", data, id }) => ({
      type,
      data,
      ...(id !== undefined && { id }),
    }));
    // the empty ones of ids are there for the SDK alone
    const isOfData = ({ data, id }: { data: string; id?: string }): boolean =>
      data !== "" || id === undefined;
    expect(dispatched.filter(isOfData)).toEqual(events.filter(isOfData));
    expect(seen.reduce((last, { id }) => id ?? last, "")).toBe(lastEventId);
  },
);

test("an event with only an id is one that an SDK goes on from", async () => {
  expect(await watched("id: 7\n\n")).toEqual({ text: "id: 7\ndata:\n\n", faults: [] });
});

test("a response in an event of another type answers nothing: an SDK does not read it", async () => {
  const { faults } = await watched('event: x\ndata: {"id":1,"result":{}}\n\n');
  expect(faults).toEqual(["interrupted"]);
});

test("a stream of events that brings no answer in time ends, whatever comes instead", async () => {
  const over = new AbortController();
  const dripping: ByteFlow = {
    async pump(take) {
      while (!over.signal.aborted) {
        await take(new TextEncoder().encode(": still here\n\n"));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    },
    cancel: () => over.abort(),
  };
  const faults: string[] = [];
  const call = { what: "a call", id: 1, answerMs: 20 };
  const body = watchEvents(dripping, call, ({ code }) => void faults.push(code));
  expect(await new Response(body).text()).toContain('"reason":"timeout"');
  expect([faults, over.signal.aborted]).toEqual([["timeout"], true]);
});

test("the call gets an error in place of a response that can no longer come", async () => {
  const { text, faults } = await watched('data: {"id":2,"result":{}}\n\n');
  expect(faults).toEqual(["protocol"]);
  expect(text).not.toContain('"id":2');
  expect(text).toMatch(/^\n\ndata: \{"jsonrpc":"2\.0","id":1,"error":\{"code":-32000,/);
});
