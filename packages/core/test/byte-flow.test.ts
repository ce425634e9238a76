import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import type { ByteFlow, WriteChunk } from "../src/index.ts";
import { createFlowBody, flowOf } from "../src/internal.ts";

const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);

/** A flow that lends one buffer again and again, as a socket does, with a record of its calls. */
function lendingFlow(...texts: readonly string[]) {
  const memory = new Uint8Array(8);
  const noted = { written: 0, released: 0, reason: undefined as unknown };
  const flow: ByteFlow = {
    async pump(write: WriteChunk) {
      for (const each of texts) {
        if (noted.reason !== undefined) throw noted.reason;
        const { written } = new TextEncoder().encodeInto(each, memory);
        noted.written += 1;
        await write(memory.subarray(0, written), () => (noted.released += 1));
      }
      if (noted.reason !== undefined) throw noted.reason;
    },
    cancel: (reason) => (noted.reason ??= reason ?? new Error("cancelled")),
  };
  return { flow, noted };
}

test("a body pumps nothing before it is read, and a chunk only when one is read", async () => {
  const { flow, noted } = lendingFlow("one", "two", "three");
  const reader = createFlowBody(flow).getReader();
  await Promise.resolve();
  expect(noted.written).toBe(0);
  expect(text((await reader.read()).value)).toBe("one");
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(noted.written).toBe(1);
  expect(text((await reader.read()).value)).toBe("two");
  expect(noted.written).toBe(2);
});

test("the reader of a body owns its chunks, even if the flow lends them", async () => {
  const { flow, noted } = lendingFlow("one", "two", "three");
  const chunks: Uint8Array[] = [];
  for await (const chunk of createFlowBody(flow)) chunks.push(chunk);
  expect(chunks.map(text)).toEqual(["one", "two", "three"]);
  expect(noted.released).toBe(3);
});

test("negative control: a reader of the flow that keeps borrowed chunks has other bytes", async () => {
  const { flow } = lendingFlow("one", "two", "six");
  const chunks: Uint8Array[] = [];
  await flowOf(createFlowBody(flow)).pump((chunk, release) => {
    chunks.push(chunk);
    release?.();
  });
  expect(chunks.map(text)).toEqual(["six", "six", "six"]);
});

test("reads that wait for each other get a chunk each", async () => {
  const reader = createFlowBody(lendingFlow("one", "two").flow).getReader();
  const results = await Promise.all([reader.read(), reader.read(), reader.read()]);
  expect(results.map(({ value }) => text(value))).toEqual(["one", "two", ""]);
  expect(results[2]?.done).toBe(true);
});

test("an abort errors a body at once, read or unread, and gives up its flow", async () => {
  for (const isRead of [true, false]) {
    const { flow, noted } = lendingFlow("one", "two");
    const abort = new AbortController();
    const reader = createFlowBody(flow, abort.signal).getReader();
    if (isRead) await reader.read();
    const reason = new Error("enough");
    abort.abort(reason);
    await expect(reader.read()).rejects.toBe(reason);
    expect(noted.reason).toBe(reason);
  }
});

test("a cancel gives up the flow, and nothing is pumped after it", async () => {
  const { flow, noted } = lendingFlow("one", "two", "three");
  const reader = createFlowBody(flow).getReader();
  await reader.read();
  const reason = new Error("enough");
  await reader.cancel(reason);
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect([noted.reason, noted.written]).toEqual([reason, 1]);
});

test("a body gives its flow once and unread; from then on no other reader has it", async () => {
  const { flow } = lendingFlow("one");
  const body = createFlowBody(flow);
  expect(flowOf(body)).toBe(flow);
  expect(body.locked).toBe(true);
  expect(() => flowOf(body)).toThrow(TypeError);
});

test("a body of which something was read is read on, not pumped from its beginning", async () => {
  const { flow } = lendingFlow("one", "two", "three");
  const body = createFlowBody(flow);
  const reader = body.getReader();
  await reader.read();
  reader.releaseLock();
  const texts: string[] = [];
  await flowOf(body).pump((chunk) => void texts.push(text(chunk)));
  expect(texts).toEqual(["two", "three"]);
});

test("a body whose flow was taken listens for an abort until that flow ends, and no longer", async () => {
  const abort = new AbortController();
  const listeners = (): number => getEventListeners(abort.signal, "abort").length;
  const pumped = flowOf(createFlowBody(lendingFlow("one").flow, abort.signal));
  expect(listeners()).toBe(1);
  await pumped.pump(() => {});
  expect(listeners()).toBe(0);
  const cancelled = flowOf(createFlowBody(lendingFlow("one").flow, abort.signal));
  expect(listeners()).toBe(1);
  cancelled.cancel();
  expect(listeners()).toBe(0);
  const { flow, noted } = lendingFlow("one", "two");
  const aborted = flowOf(createFlowBody(flow, abort.signal));
  const reason = new Error("enough");
  abort.abort(reason);
  await expect(aborted.pump(() => {})).rejects.toBe(reason);
  expect(noted.reason).toBe(reason);
});

test("a body made of another hides the flow behind it, so that what was changed stays changed", async () => {
  const { flow } = lendingFlow("one", "two");
  const loud = createFlowBody(flow).pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, out) => out.enqueue(new TextEncoder().encode(text(chunk).toUpperCase())),
    }),
  );
  const texts: string[] = [];
  await flowOf(loud).pump((chunk) => void texts.push(text(chunk)));
  expect(texts.join("")).toBe("ONETWO");
});

test("a flow of a stream rejects with the error of its writer, and has cancelled the stream", async () => {
  let cancelled: unknown;
  const body = new ReadableStream<Uint8Array>({
    pull: (out) => out.enqueue(new Uint8Array(3)),
    cancel: (reason) => void (cancelled = reason),
  });
  const fault = new Error("no room");
  const pumping = flowOf(body).pump(() => {
    throw fault;
  });
  await expect(pumping).rejects.toBe(fault);
  expect(cancelled).toBe(fault);
});
