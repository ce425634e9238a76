import { PassThrough, Writable } from "node:stream";
import { binaryContent, openBinary } from "@sluice/binary-transfer";
import { outletOf } from "../../binary-transfer/src/peer/outlet.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { OutgoingTransfer } from "../src/frames/outgoing-transfer.ts";
import { StdioChannel, type StdioLimits } from "../src/channel/stdio-channel.ts";
import { frame, interleaving, literal, whole } from "./raw-frames.ts";

const id = "00000000-0000-4000-8000-000000000001";

/** Our server and a client that takes any part of the bytes written to it. */
function meet(limits: StdioLimits = {}) {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const input = new PassThrough();
  /** Bytes written and not taken. */
  const stuck: { readonly bytes: number; readonly take: () => void }[] = [];
  let isTaking = true;
  const output = new Writable({
    highWaterMark: 1,
    write(chunk: Buffer, _encoding, take) {
      if (isTaking) take();
      else stuck.push({ bytes: chunk.length, take });
    },
  });
  const messages: Record<string, any>[] = [];
  const closed = vi.fn<(error?: Error) => void>();
  const channel = new StdioChannel(
    "server",
    { input, output },
    { message: (message) => messages.push(message), fault: () => {}, closed },
    limits,
  );
  onTestFinished(() => channel.close());
  const settle = (ms = 0): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
  async function write(part: object | Uint8Array): Promise<void> {
    input.write(part instanceof Uint8Array ? part : `${JSON.stringify(part)}\n`);
    await settle();
  }
  return {
    channel,
    closed,
    messages,
    stuck,
    settle,
    stopTaking: () => void (isTaking = false),
    write,
    /** The client names itself; gives the arguments of handlers. */
    open: async (capabilities: object): Promise<object> => {
      await write({ jsonrpc: "2.0", id: 1, method: "initialize", params: { capabilities } });
      await channel.send({ jsonrpc: "2.0", id: 1, result: { capabilities: {} } });
      await write({ jsonrpc: "2.0", id: 2, method: "tools/call", params: {} });
      return { mcpReq: { _meta: messages[1]!["params"]._meta } };
    },
    answer: async (ctx: object, bytes: Uint8Array): Promise<void> => {
      const content = await binaryContent(outletOf(ctx)!, {
        type: "image",
        mimeType: "x/y",
        bytes: { source: { body: new Response(bytes.slice()).body!, bytes }, size: bytes.length },
      });
      await channel.send({ jsonrpc: "2.0", id: 2, result: { content: [content] } });
    },
  };
}

const message = { jsonrpc: "2.0", method: "notifications/message", params: {} };

test("a client that reads nothing is given up, with all that waits for it", async () => {
  const { channel, closed, settle, stopTaking } = meet();
  stopTaking();
  const sent = [channel.send(message), channel.send(message)].map((each) =>
    each.catch(({ code }: { code: string }) => code),
  );
  await settle(29_999);
  expect(closed).not.toHaveBeenCalled();
  await settle(1_000);
  expect(closed.mock.calls).toMatchObject([[{ code: "timeout" }]]);
  expect(await Promise.all(sent)).toEqual(["timeout", "timeout"]);
});

test("a client that reads slowly, but reads, is not", async () => {
  const { channel, closed, settle, stuck, stopTaking } = meet();
  stopTaking();
  for (let n = 0; n < 40; n += 1) void channel.send(message).catch(() => {});
  for (let n = 0; n < 40; n += 1) {
    await settle(500);
    stuck.shift()?.take();
  }
  await settle();
  expect([closed.mock.calls.length, stuck.length]).toEqual([0, 0]);
});

test("messages that wait for a client that reads nothing are bounded", async () => {
  const maxBufferedBytes = 100_000;
  const { channel, closed, stopTaking } = meet({ maxBufferedBytes });
  stopTaking();
  const params = { text: "x".repeat(1_000) };
  let waiting = 0;
  const failed: string[] = [];
  for (; closed.mock.calls.length === 0 && waiting < 1_000; waiting += 1)
    channel.send({ ...message, params }).catch(({ code }: { code: string }) => failed.push(code));
  expect(closed.mock.calls).toMatchObject([[{ code: "interrupted" }]]);
  expect(waiting * 1_000).toBeLessThanOrEqual(maxBufferedBytes + 2_000);
  await vi.advanceTimersByTimeAsync(0);
  expect(failed).toEqual(Array.from({ length: waiting }, () => "interrupted"));
});

test("a message over the limit of waiting bytes is sent, with one behind it", async () => {
  const { channel, closed } = meet({ maxBufferedBytes: 10_000 });
  const params = { text: "x".repeat(20_000) };
  await Promise.all([channel.send({ ...message, params }), channel.send(message)]);
  expect(closed).not.toHaveBeenCalled();
});

test("a sender learns of a slow reader before it takes it for one that has stopped", async () => {
  const { open, write, messages, settle, stuck, stopTaking } = meet();
  await open(interleaving(2 ** 20));
  const binaryRef = { streamId: id, size: 2 ** 20, interleave: true };
  const content = { type: "image", mimeType: "x/y", data: "", binaryRef };
  await write({ jsonrpc: "2.0", id: 3, method: "x", params: { content } });
  const { body } = openBinary(messages.at(-1)!["params"].content)!;
  const reader = body.getReader();
  stopTaking();
  for (const words of [0, 0, 1]) {
    await write(frame("data", id, Buffer.alloc(1_000)));
    await reader.read();
    expect(stuck).toHaveLength(words);
    await settle(3_000);
  }
  await reader.cancel();
});

test("a transfer that waits for a pipe that is slow is not given up", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const bytes = new Uint8Array(100);
  const transfer = new OutgoingTransfer(
    {
      ref: { streamId: id, size: 100 },
      source: { body: new Response(bytes).body!, bytes },
      end() {},
    },
    { chunkBytes: 100, windowBytes: 100, stallMs: 30_000, onReady() {} },
  );
  onTestFinished(() => transfer.end("aborted"));
  await vi.advanceTimersByTimeAsync(100_000);
  expect(transfer.due).toBe("chunk");
});

test.each([
  ["whole", literal],
  ["in chunks", interleaving(2 ** 20)],
])("bytes that are not taken %s end with the connection", async (_how, capabilities) => {
  const peer = meet();
  const ctx = await peer.open(capabilities);
  peer.stopTaking();
  void peer.answer(ctx, new Uint8Array(10_000)).catch(() => {});
  await peer.settle(40_000);
  expect(peer.closed.mock.calls).toMatchObject([[{ code: "timeout" }]]);
});

test.each([
  ["a message", Buffer.from('{"jsonrpc":"2.0","method":"x","params":{}}')],
  ["a header", frame("credit", id, 5)],
  ["a frame", frame("data", id, Buffer.alloc(200))],
  ["a whole transfer", whole(id, Buffer.alloc(200))],
])("a client that drips %s is given up", async (what, bytes) => {
  const { closed, open, write, settle } = meet();
  await open(literal);
  const binaryRef = { streamId: id, size: 200 };
  if (what === "a whole transfer")
    await write({ jsonrpc: "2.0", id: 3, method: "x", params: { binaryRef } });
  for (const byte of bytes.subarray(0, 5)) {
    await write(Uint8Array.of(byte));
    await settle(7_000);
  }
  expect(closed.mock.calls).toMatchObject([[{ code: "timeout" }]]);
});

test("a client that says nothing for long between two messages is not", async () => {
  const { closed, open, write, settle } = meet();
  await open(literal);
  for (let n = 0; n < 5; n += 1) {
    await settle(60_000);
    await write(message);
  }
  expect(closed).not.toHaveBeenCalled();
});

test.each([
  ["in drips is given up", 1, "abort"],
  ["as fast as 4 KiB a second is not", 40_960, undefined],
])("a receiver that grants credit %s", async (_how, bytes, due) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const content = new Uint8Array(2 ** 20);
  const transfer = new OutgoingTransfer(
    {
      ref: { streamId: id, size: content.length },
      source: { body: new Response(content).body!, bytes: content },
      end: () => {},
    },
    { chunkBytes: 2_048, windowBytes: 4_096, stallMs: 30_000, onReady: () => {} },
  );
  onTestFinished(() => transfer.end("aborted"));
  const takeAll = async (): Promise<void> => {
    for (await vi.advanceTimersByTimeAsync(0); transfer.due === "chunk";) {
      transfer.take();
      await vi.advanceTimersByTimeAsync(0);
    }
  };
  for (let n = 0; n < 10; n += 1) {
    await takeAll();
    await vi.advanceTimersByTimeAsync(10_000);
    transfer.grant(bytes);
  }
  await takeAll();
  expect(transfer.due).toBe(due);
});
