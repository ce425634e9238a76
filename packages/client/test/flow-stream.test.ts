import type { ByteFlow, WriteChunk } from "@sluice/core";
import { expect, test, vi } from "vitest";
import { streamOf } from "../src/net/flow-stream.ts";

const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);

/** A flow that lends one block and fills it again as soon as it is given back. */
function createLendingFlow(chunks: readonly string[], fault?: Error) {
  const block = new Uint8Array(16);
  const lent = { most: 0, now: 0, given: 0 };
  const cancel = vi.fn<(reason?: unknown) => void>();
  const flow: ByteFlow = {
    async pump(take: WriteChunk) {
      for (const chunk of chunks) {
        const { written } = new TextEncoder().encodeInto(chunk, block);
        lent.most = Math.max(lent.most, ++lent.now);
        lent.given++;
        await take(block.subarray(0, written), () => void lent.now--);
      }
      block.fill(0);
      if (fault) throw fault;
    },
    cancel,
  };
  return { flow, lent, cancel };
}

test("a reader with its own buffer gets every byte in it, however small it is", async () => {
  const { flow, lent } = createLendingFlow(["0123456", "", "789"]);
  const reader = streamOf(flow).getReader({ mode: "byob" });
  let buffer = new ArrayBuffer(4);
  let got = "";
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(buffer));
    got += text(value);
    if (done) break;
    buffer = value.buffer;
  }
  expect(got).toBe("0123456789");
  expect(lent).toEqual({ most: 1, now: 0, given: 3 });
});

test("a reader without one gets chunks of its own, which lent memory does not change", async () => {
  const { flow, lent } = createLendingFlow(["0123", "4567"]);
  const chunks: Uint8Array[] = [];
  for await (const chunk of streamOf(flow)) chunks.push(chunk);
  expect(chunks.map(text)).toEqual(["0123", "4567"]);
  expect(lent.now).toBe(0);
});

test("chunks that share their memory with others leave it to them", async () => {
  const memory = new TextEncoder().encode("0123456789");
  const flow: ByteFlow = {
    async pump(take: WriteChunk) {
      await take(memory.subarray(2, 4));
    },
    cancel() {},
  };
  const chunks: Uint8Array[] = [];
  for await (const chunk of streamOf(flow)) chunks.push(chunk);
  expect(chunks.map(text)).toEqual(["23"]);
  expect(text(memory)).toBe("0123456789");
});

test("nothing is pumped before the first read, and no chunk before the reader wants it", async () => {
  const { flow, lent } = createLendingFlow(["0123", "4567"]);
  const reader = streamOf(flow).getReader();
  await new Promise(setImmediate);
  expect(lent.given).toBe(0);
  await reader.read();
  await new Promise(setImmediate);
  expect(lent.given).toBe(1);
  await Promise.all([reader.read(), reader.read()]);
  expect(lent).toEqual({ most: 1, now: 0, given: 2 });
});

test("two reads at once with buffers of their own are both answered, and so is one at the end", async () => {
  const { flow } = createLendingFlow(["0123", "4567"]);
  const reader = streamOf(flow).getReader({ mode: "byob" });
  const reads = [1, 2, 3].map(() => reader.read(new Uint8Array(4)));
  const results = await Promise.all(reads);
  expect(results.map(({ value }) => text(value))).toEqual(["0123", "4567", ""]);
  expect(results.map(({ done }) => done)).toEqual([false, false, true]);
});

test("a fault reaches the reader after the bytes before it", async () => {
  const fault = new Error("broken");
  const reader = streamOf(createLendingFlow(["0123"], fault).flow).getReader({ mode: "byob" });
  expect(text((await reader.read(new Uint8Array(8))).value)).toBe("0123");
  await expect(reader.read(new Uint8Array(8))).rejects.toBe(fault);
});

test("cancelling gives lent memory back and cancels the flow", async () => {
  const { flow, lent, cancel } = createLendingFlow(["0123", "4567"]);
  const reader = streamOf(flow).getReader({ mode: "byob" });
  await reader.read(new Uint8Array(2));
  expect(lent.now).toBe(1);
  await reader.cancel("enough");
  expect(lent.now).toBe(0);
  expect(cancel).toHaveBeenCalledWith("enough");
});
