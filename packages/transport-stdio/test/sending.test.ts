import type { FileRegion, Source } from "@sluice/core";
import { binaryContent, type OutgoingBytes } from "@sluice/binary-transfer";
import { outletOf } from "../../binary-transfer/src/peer/outlet.ts";
import { describe, expect, test, vi } from "vitest";
import type { StdioLimits } from "../src/channel/stdio-channel.ts";
import { frame, interleaving, literal, whole } from "./raw-frames.ts";
import { rawPeer, type RawPeer } from "./raw-peer.ts";

const bytes = Buffer.from(Array.from({ length: 10_000 }, (_, i) => i % 251));

interface Serving extends RawPeer {
  /** The arguments of a handler. */
  readonly ctx: object;
  /** Sends the answer that refers to bytes; gives the id of their stream, and how it went. */
  answer(
    bytes: Partial<OutgoingBytes> & { source: Source },
  ): Promise<{ streamId: string; ended: unknown[] }>;
}

/** A server of ours that met a client. */
async function serve(capabilities: object, limits: StdioLimits = {}): Promise<Serving> {
  const peer = rawPeer("server", limits);
  peer.write({ jsonrpc: "2.0", id: 1, method: "initialize", params: { capabilities } });
  await expect.poll(() => peer.messages.length).toBe(1);
  await peer.channel.send({ jsonrpc: "2.0", id: 1, result: { capabilities: {} } });
  await peer.line();
  peer.write({ jsonrpc: "2.0", id: 2, method: "tools/call", params: {} });
  await expect.poll(() => peer.messages.length).toBe(2);
  const ctx = { mcpReq: { _meta: peer.messages[1]!["params"]._meta } };
  return {
    ...peer,
    ctx,
    async answer(given) {
      const ended: unknown[] = [];
      const outlet = outletOf(ctx)!;
      const end = (result: unknown): void => void ended.push(result);
      const sized = { size: bytes.length, end, ...given };
      const content = await binaryContent(outlet, { type: "image", mimeType: "x/y", bytes: sized });
      await peer.channel.send({ jsonrpc: "2.0", id: 2, result: { content: [content] } });
      const { result } = await peer.line();
      return { streamId: result.content[0].binaryRef.streamId, ended };
    },
  };
}

const sourceOf = (...chunks: readonly Uint8Array[]): Source => ({
  body: new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  }),
});
const inMemory = (): Source => ({ ...sourceOf(bytes), bytes });
const failing = (): Source => ({
  body: new ReadableStream({
    pull: (controller) => controller.error(new Error("storage broke")),
  }),
});
const stalling = (onCancel: () => void): Source => ({
  body: new ReadableStream({ pull: () => new Promise(() => {}), cancel: onCancel }),
});

describe("to a peer with only the RFC", () => {
  test.each([
    ["memory", inMemory],
    ["a stream", () => sourceOf(bytes.subarray(0, 7), new Uint8Array(0), bytes.subarray(7))],
  ])(
    "bytes of %s stand whole behind their message [BINARY/3.a.stream/frame]",
    async (_what, source) => {
      const peer = await serve(literal);
      const { streamId, ended } = await peer.answer({ source: source() });
      expect(await peer.bytes(24 + bytes.length)).toEqual(whole(streamId, bytes));
      await expect.poll(() => ended).toEqual([{ outcome: "complete", bytes: bytes.length }]);
      await peer.channel.send({ jsonrpc: "2.0", id: 3, result: {} });
      expect(await peer.line()).toMatchObject({ id: 3 });
    },
  );

  test("messages wait for the end of a frame, and none stands in it", async () => {
    const peer = await serve(literal);
    let push: (chunk?: Uint8Array) => void = () => {};
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        push = (chunk) => (chunk ? controller.enqueue(chunk) : controller.close());
      },
    });
    const { streamId } = await peer.answer({ source: { body }, size: 20 });
    push(bytes.subarray(0, 10));
    const other = peer.channel.send({ jsonrpc: "2.0", id: 3, result: {} });
    await peer.bytes(34);
    expect(peer.pending()).toBe(0);
    push(bytes.subarray(10, 20));
    push();
    await other;
    expect(await peer.bytes(10)).toEqual(bytes.subarray(10, 20));
    expect(await peer.line()).toMatchObject({ id: 3 });
    expect(streamId).toMatch(/^[0-9a-f-]{36}$/);
  });

  test.each([
    ["breaks", failing(), {}],
    ["is shorter than it said", sourceOf(bytes.subarray(1)), {}],
    ["is longer than it said", sourceOf(bytes, bytes), {}],
    ["stops", stalling(() => {}), { idleMs: 30 }],
  ])(
    "a source that %s ends the connection: nothing else can say so",
    async (_what, source, limits) => {
      const peer = await serve(literal, limits);
      const { ended } = await peer.answer({ source });
      expect(await peer.closed).toBeInstanceOf(Error);
      await expect.poll(() => ended).toMatchObject([{ outcome: "failed" }]);
    },
  );
});

describe("in chunks", () => {
  const windowBytes = 4_096;

  test("no more is sent than the receiver takes, and messages go first", async () => {
    const peer = await serve(interleaving(windowBytes));
    const { streamId, ended } = await peer.answer({ source: inMemory() });
    const [first, second] = [bytes.subarray(0, 2_048), bytes.subarray(2_048, 4_096)];
    expect(await peer.bytes(2 * (25 + 2_048))).toEqual(
      Buffer.concat([frame("data", streamId, first), frame("data", streamId, second)]),
    );
    // without credit there is nothing but messages
    await peer.channel.send({ jsonrpc: "2.0", id: 3, result: {} });
    expect(await peer.line()).toMatchObject({ id: 3 });
    expect(peer.pending()).toBe(0);
    peer.write(frame("credit", streamId, 10_000));
    const rest = 10_000 - 4_096;
    const got = await peer.bytes(3 * 25 + rest + 25);
    expect(got.subarray(-25)).toEqual(frame("end", streamId));
    await expect.poll(() => ended).toEqual([{ outcome: "complete", bytes: 10_000 }]);
  });

  test("a message sent in the middle of a large transfer waits for two chunks at most", async () => {
    const peer = await serve(interleaving(2 ** 26));
    const size = 2 ** 25;
    const source = sourceOf(...Array.from({ length: 32 }, () => Buffer.alloc(2 ** 20)));
    await peer.answer({ source, size });
    await peer.channel.send({ jsonrpc: "2.0", id: 3, result: {} });
    const before = await peer.bytes(peer.pending());
    expect(before.indexOf('{"jsonrpc":"2.0","id":3,"result":{}}\n')).toBeGreaterThan(-1);
    expect(before.length).toBeLessThan(2 ** 22);
  });

  test("streams take turns", async () => {
    const peer = await serve(interleaving(windowBytes));
    const a = await peer.answer({ source: inMemory() });
    await peer.bytes(2 * (25 + 2_048));
    const b = await peer.answer({ source: inMemory() });
    await peer.bytes(2 * (25 + 2_048));
    peer.write(frame("credit", a.streamId, 4_096), frame("credit", b.streamId, 4_096));
    const frames = await peer.bytes(4 * (25 + 2_048));
    const ids = [0, 1, 2, 3].map((i) =>
      frames.subarray(i * 2_073 + 1, i * 2_073 + 17).toString("hex"),
    );
    expect(new Set(ids.slice(0, 2)).size).toBe(2);
    expect(new Set(ids.slice(2)).size).toBe(2);
  });

  test.each([
    ["breaks", failing, {}],
    ["is shorter than it said", () => sourceOf(bytes.subarray(9_999)), {}],
    ["stops", () => stalling(() => {}), { idleMs: 30 }],
  ])("a source that %s ends only its stream", async (_what, source, limits) => {
    const peer = await serve(interleaving(2 ** 20), limits);
    const { streamId, ended } = await peer.answer({ source: source() });
    await expect.poll(() => ended).toMatchObject([{ outcome: "failed" }]);
    const sent = await peer.bytes(peer.pending());
    expect(sent.subarray(-25)).toEqual(frame("abort", streamId));
    await peer.channel.send({ jsonrpc: "2.0", id: 3, result: {} });
    expect(await peer.line()).toMatchObject({ id: 3 });
  });

  test("a receiver that wants no more is sent no more, and the source is let go", async () => {
    const peer = await serve(interleaving(2 ** 20));
    const onCancel = vi.fn<() => void>();
    const { streamId, ended } = await peer.answer({ source: stalling(onCancel) });
    peer.write(frame("stop", streamId));
    await expect.poll(() => ended).toMatchObject([{ outcome: "aborted" }]);
    expect(onCancel).toHaveBeenCalledTimes(1);
    expect(peer.pending()).toBe(0);
  });

  test("a receiver that takes nothing is given up after a while", async () => {
    const peer = await serve(interleaving(windowBytes), { idleMs: 30 });
    const { ended } = await peer.answer({ source: inMemory() });
    await expect
      .poll(() => ended)
      .toMatchObject([{ outcome: "failed", bytes: 4_096, error: { code: "timeout" } }]);
  });

  test("a connection that ends lets go of every source", async () => {
    const peer = await serve(interleaving(windowBytes));
    const onCancel = vi.fn<() => void>();
    const { ended } = await peer.answer({ source: stalling(onCancel) });
    peer.end();
    await peer.closed;
    expect(ended).toMatchObject([{ outcome: "aborted" }]);
    expect(onCancel).toHaveBeenCalledTimes(1);
    await expect(peer.channel.send({ jsonrpc: "2.0", method: "x" })).rejects.toMatchObject({
      code: "interrupted",
    });
  });

  test("bytes that the pipe has not taken are not complete when the connection ends", async () => {
    const peer = await serve(interleaving(2 ** 26));
    // the last chunk fills the pipe, so its end waits
    const size = 2 ** 22;
    const { ended } = await peer.answer({ source: sourceOf(Buffer.alloc(size)), size });
    await expect.poll(() => peer.pending()).toBeGreaterThan(size);
    await new Promise(setImmediate);
    peer.end();
    await peer.closed;
    await expect.poll(() => ended).toMatchObject([{ outcome: "aborted" }]);
  });

  test("a file that changed is never sent whole, and is closed", async () => {
    const peer = await serve(interleaving(2 ** 20));
    const { open, mkdtemp, rm, writeFile } = await import("node:fs/promises");
    const folder = await mkdtemp(`${(await import("node:os")).tmpdir()}/sluice-stdio-`);
    await writeFile(`${folder}/a`, bytes);
    const handle = await open(`${folder}/a`);
    const close = vi.fn<() => Promise<void>>(() => handle.close());
    const verify = (): Promise<void> => Promise.reject(new Error("another version"));
    const file: FileRegion = { fd: handle.fd, start: 0, end: bytes.length, verify, close };
    const { streamId, ended } = await peer.answer({
      source: { ...inMemory(), file, bytes: undefined! },
    });
    await expect.poll(() => ended).toMatchObject([{ outcome: "failed" }]);
    expect(await peer.bytes(25)).toEqual(frame("abort", streamId));
    expect(close).toHaveBeenCalled();
    await rm(folder, { recursive: true });
  });
});

test("everything is base64 to a peer that declared nothing [BINARY/compatibility/unsupporting-base64] [BINARY/compatibility/only-both]", async () => {
  const peer = await serve({});
  const content = await binaryContent(peer.ctx, { type: "image", mimeType: "x/y", bytes });
  expect(content).toEqual({ type: "image", mimeType: "x/y", data: bytes.toString("base64") });
});
