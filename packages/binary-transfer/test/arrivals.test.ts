import { createHash } from "node:crypto";
import { BINARY_EXTENSION_ID } from "@sluice/core/internal";
import { openBinary, type OpenedBinary } from "@sluice/binary-transfer";
import {
  type BinaryPeerOptions,
  createBinaryPeer,
  type Inbox,
  type IncomingStream,
} from "@sluice/binary-transfer/internal";
import { describe, expect, onTestFinished, test, vi } from "vitest";

const bytes = Uint8Array.from({ length: 500 }, (_, i) => i % 251);
const sha256 = createHash("sha256").update(bytes).digest("hex");

interface Receiving {
  readonly inbox: Inbox;
  readonly ended: ReturnType<typeof vi.fn>;
  /** A message that announces a stream, as the application gets it. */
  readonly announce: (ref?: object) => { readonly content: object; readonly streamId: string };
  /** The same, opened and begun. */
  readonly begin: (ref?: object) => {
    readonly opened: OpenedBinary;
    readonly incoming: IncomingStream;
  };
}

function receive(options: Partial<BinaryPeerOptions> = {}): Receiving {
  const ended = vi.fn<(streamId: string, error?: unknown) => void>();
  const peer = createBinaryPeer({
    role: "server",
    mode: "stream",
    maxBinaryBytes: 1_000,
    onEnd: ended,
    declared: { binaryTransfer: { supported: true } },
    ...options,
  });
  onTestFinished(() => peer.close(new Error("over")));
  function announce(ref: object = {}) {
    const streamId = crypto.randomUUID();
    const binaryRef = { streamId, size: 500, ...ref };
    const { message } = peer.received({
      method: "x",
      params: { content: { type: "image", binaryRef } },
    });
    return { content: message.params.content, streamId: binaryRef.streamId };
  }
  return {
    inbox: peer.inbox,
    ended,
    announce,
    begin(ref) {
      const { content, streamId } = announce(ref);
      return { opened: openBinary(content)!, incoming: peer.inbox.begin(streamId) };
    },
  };
}

async function outcome(body: ReadableStream<Uint8Array>): Promise<unknown> {
  try {
    return Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)
      ? "the bytes"
      : "other";
  } catch (error) {
    return (error as { code?: string }).code;
  }
}

describe("a transfer", () => {
  test("is what was sent, in order, whatever the chunks are", async () => {
    const { begin, ended } = receive();
    const { opened, incoming } = begin({ checksum: sha256.toUpperCase() });
    for (let at = 0; at < bytes.length; at += 7) void incoming.write(bytes.subarray(at, at + 7));
    incoming.end();
    expect(await outcome(opened.body)).toBe("the bytes");
    expect(ended.mock.calls).toEqual([[incoming.ref.streamId, undefined]]);
  });

  test.each([
    ["a sender that drips is late", 1, 0, "timeout"],
    ["one that is as fast as 4 KiB a second is not", 40_960, 0, "complete"],
    ["nor is one whose reader is slow", 1, 20_000, "complete"],
  ])("%s", async (_what, bytesAtOnce, readerMs, expected) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const size = 20 * bytesAtOnce;
    const { begin, ended } = receive({ maxBinaryBytes: size });
    const { opened, incoming } = begin({ size });
    const reader = opened.body.getReader();
    const reading = (async () => {
      for (let left = size; left > 0;) {
        left -= (await reader.read()).value!.length;
        if (readerMs > 0) await new Promise((resolve) => setTimeout(resolve, readerMs));
      }
      return "complete";
    })().catch(({ code }: { code: string }) => code);
    for (let n = 0; n < 20; n += 1) {
      await vi.advanceTimersByTimeAsync(10_000);
      void incoming.write(new Uint8Array(bytesAtOnce));
    }
    await vi.advanceTimersByTimeAsync(1);
    incoming.end();
    await vi.advanceTimersByTimeAsync(readerMs * 20);
    expect(await reading).toBe(expected);
    expect(ended).toHaveBeenCalledTimes(1);
  });

  test("streams that share 4 KiB a second are not late, and one without a reader is", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const size = 200_000;
    const { begin, ended } = receive({ maxBinaryBytes: size });
    const streams = Array.from({ length: 4 }, () => begin({ size }));
    for (const { opened } of streams) void new Response(opened.body).arrayBuffer().catch(() => {});
    const unread = begin({ size });
    void unread.incoming.write(new Uint8Array(1));
    for (let n = 0; n < 16; n += 1) {
      await vi.advanceTimersByTimeAsync(10_000);
      void streams[n % 4]!.incoming.write(new Uint8Array(40_960));
    }
    const late = { code: "timeout" };
    expect(ended.mock.calls).toMatchObject([[unread.incoming.ref.streamId, late]]);
  });

  test("is complete without bytes", async () => {
    const { begin, inbox } = receive();
    const { opened, incoming } = begin({ size: 0 });
    incoming.end();
    expect((await new Response(opened.body).arrayBuffer()).byteLength).toBe(0);
    expect(inbox.isExpected(incoming.ref.streamId)).toBe(false);
  });

  test.each([
    ["too short", "interrupted", {}, [bytes.subarray(0, 499)]],
    ["too long", "protocol", {}, [bytes, bytes.subarray(0, 1)]],
    ["other bytes", "corrupt", { checksum: sha256 }, [bytes.toReversed()]],
  ] as const)("with %s is %s, never a success", async (_what, code, ref, chunks) => {
    const { begin, inbox, ended } = receive();
    const { opened, incoming } = begin(ref);
    for (const chunk of chunks) void incoming.write(chunk.slice());
    incoming.end();
    expect(await outcome(opened.body)).toBe(code);
    expect(inbox.isExpected(incoming.ref.streamId)).toBe(false);
    expect(ended).toHaveBeenCalledWith(incoming.ref.streamId, expect.objectContaining({ code }));
  });

  test("does not end cleanly with a wrong checksum, even when its bytes were read before [BINARY/security/may-verify]", async () => {
    const { begin } = receive();
    const { opened, incoming } = begin({ checksum: "0".repeat(64) });
    const reader = opened.body.getReader();
    void incoming.write(bytes);
    expect((await reader.read()).value?.length).toBe(500);
    incoming.end();
    await expect(reader.read()).rejects.toMatchObject({ code: "corrupt" });
  });

  test("wakes every writer behind a full window", async () => {
    const { begin } = receive({ windowBytes: 100 });
    const { opened, incoming } = begin();
    const first = incoming.write(bytes.slice(0, 200))!;
    const second = incoming.write(bytes.slice(200))!;
    incoming.end();
    expect(await outcome(opened.body)).toBe("the bytes");
    await first;
    await second;
  });

  test("waits for a reader with a window of bytes, and then holds its writer up", async () => {
    const { begin } = receive({ windowBytes: 300 });
    const { opened, incoming } = begin();
    expect(incoming.write(bytes.subarray(0, 200))).toBeUndefined();
    const held = incoming.write(bytes.subarray(200, 400))!;
    let isFree = false;
    void held.then(() => (isFree = true));
    await new Promise(setImmediate);
    expect([isFree, incoming.queuedBytes]).toEqual([false, 400]);
    await opened.body.getReader().read();
    await held;
    expect(isFree).toBe(true);
  });

  test("without a reader is given up, and its writer goes free", async () => {
    const { announce, inbox, ended } = receive({ windowBytes: 100, idleMs: 10 });
    const { streamId, content } = announce();
    const incoming = inbox.begin(streamId);
    await incoming.write(bytes.subarray(0, 400));
    expect(ended).toHaveBeenCalledWith(streamId, expect.objectContaining({ code: "timeout" }));
    expect(incoming.queuedBytes).toBe(0);
    expect(incoming.write(bytes)).toBeUndefined();
    // a late reader learns why
    expect(await outcome(openBinary(content)!.body)).toBe("timeout");
  });

  test("is given up if it does not come", async () => {
    const { announce } = receive({ idleMs: 10 });
    expect(await outcome(openBinary(announce().content)!.body)).toBe("timeout");
  });

  test("needs no more bytes once its reader cancels", async () => {
    const { begin, ended, inbox } = receive();
    const { opened, incoming } = begin();
    await opened.body.cancel();
    expect(ended).toHaveBeenCalledWith(incoming.ref.streamId, expect.anything());
    expect(inbox.isExpected(incoming.ref.streamId)).toBe(false);
    expect(incoming.isOver).toBe(true);
  });

  test("ends with the reason of an abort itself", async () => {
    const { announce, inbox } = receive();
    const { content, streamId } = announce();
    const stop = new AbortController();
    const { body } = openBinary(content, { signal: stop.signal })!;
    inbox.begin(streamId);
    const reason = new Error("enough");
    stop.abort(reason);
    await expect(body.getReader().read()).rejects.toBe(reason);
  });

  test("fails with its connection, unless all of it is here", async () => {
    const { begin, inbox } = receive();
    const half = begin();
    void half.incoming.write(bytes.subarray(1));
    const whole = begin();
    void whole.incoming.write(bytes);
    whole.incoming.end();
    inbox.close(new Error("gone"));
    await expect(half.opened.body.getReader().read()).rejects.toThrow("gone");
    expect(await outcome(whole.opened.body)).toBe("the bytes");
  });

  test("keeps none of the buffers whose views its tiny chunks are", async () => {
    const { begin } = receive({ maxBinaryBytes: 2 ** 20 });
    const { opened, incoming } = begin({ size: 2 ** 13 });
    for (let i = 0; i < 2 ** 10; i += 1)
      void incoming.write(new Uint8Array(2 ** 16).subarray(0, 8));
    incoming.end();
    const chunks: Uint8Array[] = [];
    for await (const chunk of opened.body) chunks.push(chunk);
    expect(chunks.map(({ buffer }) => buffer.byteLength)).toEqual([2 ** 14]);
    expect(chunks[0]!.length).toBe(2 ** 13);
  });
});

describe("an inbox", () => {
  test("takes an id once", () => {
    const { announce, inbox } = receive();
    const { streamId } = announce();
    expect(() => openBinary(announce({ streamId }).content)).toThrow(
      expect.objectContaining({ code: "protocol" }),
    );
    inbox.begin(streamId);
    expect(() => inbox.begin(streamId)).toThrow(expect.objectContaining({ code: "protocol" }));
  });

  test("takes no id a second time while its bytes are on their way, however many others came since", async () => {
    const { announce, begin, inbox } = receive({ maxStreams: 2 });
    const { opened, incoming } = begin();
    for (let others = 0; others < 2_000; others += 1) announce({ size: 1_001 });
    expect(inbox.wasUsed(incoming.ref.streamId)).toBe(true);
    const again = announce({ streamId: incoming.ref.streamId });
    expect(() => openBinary(again.content)).toThrow(expect.objectContaining({ code: "protocol" }));
    void incoming.write(bytes);
    incoming.end();
    expect(await outcome(opened.body)).toBe("the bytes");
  });

  test("remembers a bounded number of those that ended before a reader came", () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { announce, inbox } = receive({ maxStreams: 2 });
    for (let ended = 0; ended < 20; ended += 1)
      inbox.fail(announce().streamId, new Error("given up"));
    expect(vi.getTimerCount()).toBe(2);
  });

  test("has only ids that were announced", () => {
    const { inbox } = receive();
    expect(() => inbox.begin(crypto.randomUUID())).toThrow(
      expect.objectContaining({ code: "not_found" }),
    );
  });

  test("a transfer of another size than announced fails", async () => {
    const { announce, inbox } = receive();
    const { content, streamId } = announce();
    expect(() => inbox.begin(streamId, 499)).toThrow(/announced with 500 bytes, came with 499/);
    expect(await outcome(openBinary(content)!.body)).toBe("protocol");
  });

  test("a transfer over the limit is refused when opened, and the rest continues [BINARY/security/size-limits]", () => {
    const { announce } = receive();
    const { content } = announce({ size: 1_001 });
    expect(() => openBinary(content)).toThrow(expect.objectContaining({ code: "too_large" }));
    expect(openBinary(announce({ size: 1_000 }).content)).toBeDefined();
  });

  test("takes a bounded number at a time", () => {
    const { announce, begin } = receive({ maxStreams: 2 });
    const { incoming } = begin();
    announce();
    expect(() => openBinary(announce().content)).toThrow(
      expect.objectContaining({ code: "throttled" }),
    );
    incoming.fail(new Error("over"));
    expect(openBinary(announce().content)).toBeDefined();
    expect(() => openBinary(announce().content)).toThrow(
      expect.objectContaining({ code: "throttled" }),
    );
  });

  test("a reference that cannot be one is an error of the message", () => {
    const { announce } = receive();
    expect(() => announce({ streamId: "x" })).toThrow(
      expect.objectContaining({ code: "protocol" }),
    );
    expect(() => announce({ size: -1 })).toThrow(expect.objectContaining({ code: "protocol" }));
  });

  test("references of an end that declared nothing are plain data, and may be malformed", () => {
    const { announce } = receive({ declared: undefined });
    const binaryRef = { streamId: "the third", size: "large" };
    expect(announce(binaryRef).content).toEqual({ type: "image", binaryRef });
  });

  test("a peer that declared nothing announces nothing: its text is only text", () => {
    const peer = createBinaryPeer({ role: "client", mode: "stream", maxBinaryBytes: 9 });
    onTestFinished(() => peer.close(new Error("over")));
    const message = { id: 1, result: { binaryRef: { streamId: crypto.randomUUID(), size: 1 } } };
    const { refs, message: same } = peer.received(structuredClone(message));
    expect([refs, same]).toEqual([[], message]);
  });

  test("copies in _meta announce nothing by themselves", () => {
    const { announce } = receive();
    const _meta = { [BINARY_EXTENSION_ID]: { binaryRef: { streamId: "x", size: 1 } } };
    expect(() => announce({ _meta })).not.toThrow();
  });
});
