import { openBinary } from "@sluice/binary-transfer";
import { createStdioClientTransport } from "@sluice/transport-stdio/client";
import { describe, expect, test } from "vitest";
import type { StdioLimits } from "../src/channel/stdio-channel.ts";
import { frame, interleaving, literal, whole } from "./raw-frames.ts";
import { rawPeer, type RawPeer } from "./raw-peer.ts";

const bytes = Buffer.from(Array.from({ length: 300 }, (_, i) => i % 251));
const ping = { jsonrpc: "2.0", id: 99, method: "ping" };

/** A client of ours that met a server; `announce` is an answer which names streams. */
async function meet(
  capabilities: object,
  limits: StdioLimits = {},
): Promise<RawPeer & { announce(...refs: readonly object[]): object }> {
  const peer = rawPeer("client", limits);
  await peer.channel.send({ jsonrpc: "2.0", id: 1, method: "initialize", params: {} });
  await peer.line();
  peer.write({ jsonrpc: "2.0", id: 1, result: { capabilities } });
  await expect.poll(() => peer.messages.length).toBe(1);
  peer.messages.length = 0;
  return {
    ...peer,
    announce: (...refs) => ({
      jsonrpc: "2.0",
      id: 2,
      result: { content: refs.map((binaryRef) => ({ type: "image", binaryRef })) },
    }),
  };
}

/** The outcomes of the streams of the first message. */
async function outcomes({ messages }: RawPeer): Promise<unknown[]> {
  await expect.poll(() => messages.length).toBeGreaterThan(0);
  const content: object[] = messages[0]!["result"].content;
  return Promise.all(
    content.map(async (item) => {
      try {
        const got = Buffer.from(await new Response(openBinary(item)!.body).arrayBuffer());
        return got.equals(bytes) ? "the bytes" : "other";
      } catch (error) {
        return (error as { code: string }).code;
      }
    }),
  );
}

/** A message comes through, and nothing ended. */
async function isUsable(peer: RawPeer): Promise<boolean> {
  peer.write(ping);
  await expect.poll(() => peer.messages.at(-1)?.["id"]).toBe(99);
  return peer.messages.filter(({ id: of }) => of === 99).length === 1;
}

const id = (): string => crypto.randomUUID();

test.each([
  ["no JSON", "{nope", "Invalid JSON"],
  ["a batch", JSON.stringify([ping]), "one JSON-RPC 2.0 message"],
  ["no JSON-RPC", '{"id":1,"method":"ping"}', "one JSON-RPC 2.0 message"],
])("a line that is %s is a fault, and the next one is read", async (_what, line, message) => {
  const peer = rawPeer("server");
  peer.write(Buffer.from(`${line}\n`));
  await expect.poll(() => peer.faults.length).toBe(1);
  expect(peer.faults[0]).toMatchObject({ code: "protocol" });
  expect(peer.faults[0]!.message).toContain(message);
  expect(await isUsable(peer)).toBe(true);
});

describe("from a peer with only the RFC", () => {
  test("streams stand whole behind their message, in any order", async () => {
    const peer = await meet(literal);
    const [a, b] = [id(), id()];
    const size = bytes.length;
    peer.write(peer.announce({ streamId: a, size }, { streamId: b.toUpperCase(), size }));
    peer.write(whole(b, bytes), whole(a, bytes));
    expect(await outcomes(peer)).toEqual(["the bytes", "the bytes"]);
    expect(await isUsable(peer)).toBe(true);
  });

  test.each([
    ["another id than announced", (): string => id(), bytes, "protocol"],
    ["another size than announced", (own: string): string => own, bytes.subarray(1), "protocol"],
  ] as const)("%s ends only that transfer", async (_what, other, sent, code) => {
    const peer = await meet(literal);
    const streamId = id();
    peer.write(peer.announce({ streamId, size: bytes.length }), whole(other(streamId), sent));
    expect(await outcomes(peer)).toEqual([code]);
    expect(peer.faults).toHaveLength(1);
    expect(await isUsable(peer)).toBe(true);
  });

  test("one that is announced twice comes once", async () => {
    const peer = await meet(literal);
    const ref = { streamId: id(), size: bytes.length };
    peer.write(peer.announce(ref, ref), whole(ref.streamId, bytes));
    expect(await outcomes(peer)).toEqual(["the bytes", "protocol"]);
    expect(await isUsable(peer)).toBe(true);
  });

  test("one that is too large is dropped as it comes [BINARY/security/size-limits]", async () => {
    const peer = await meet(literal, { maxBinaryBytes: 299 });
    const ref = { streamId: id(), size: bytes.length };
    peer.write(peer.announce(ref), whole(ref.streamId, bytes));
    expect(await outcomes(peer)).toEqual(["too_large"]);
    expect(await isUsable(peer)).toBe(true);
  });

  test("one whose checksum is wrong is corrupt [BINARY/security/may-verify]", async () => {
    const peer = await meet(literal);
    const ref = { streamId: id(), size: bytes.length, checksum: "0".repeat(64) };
    peer.write(peer.announce(ref), whole(ref.streamId, bytes));
    expect(await outcomes(peer)).toEqual(["corrupt"]);
    expect(await isUsable(peer)).toBe(true);
  });

  test("one that is not read holds the pipe up until it is given up, and then is dropped", async () => {
    const peer = await meet(literal, { windowBytes: 100, idleMs: 30 });
    const ref = { streamId: id(), size: 3_000 };
    peer.write(peer.announce(ref), whole(ref.streamId, Buffer.alloc(3_000)));
    expect(await isUsable(peer)).toBe(true);
    expect(await outcomes(peer)).toEqual(["timeout"]);
  });

  test.each([
    ["an invalid id", { streamId: "x", size: 1 }],
    ["an invalid size", { streamId: crypto.randomUUID(), size: -1 }],
  ])("%s ends the connection: where the next message begins is unknown", async (_what, ref) => {
    const peer = await meet(literal);
    peer.write(peer.announce(ref));
    expect(await peer.closed).toMatchObject({ code: "protocol" });
  });

  test("one that stops in the middle of a frame ends the connection", async () => {
    const peer = await meet(literal, { idleMs: 30 });
    const streamId = id();
    peer.write(
      peer.announce({ streamId, size: 300 }),
      whole(streamId, bytes, 300).subarray(0, 100),
    );
    expect(await outcomes(peer)).toEqual(["timeout"]);
    expect(await peer.closed).toMatchObject({ code: "timeout" });
  });

  test("a pipe that ends in the middle interrupts the transfer", async () => {
    const peer = await meet(literal);
    const streamId = id();
    peer.write(
      peer.announce({ streamId, size: 300 }),
      whole(streamId, bytes, 300).subarray(0, 100),
    );
    peer.end();
    expect(await outcomes(peer)).toEqual(["interrupted"]);
    expect(await peer.closed).toMatchObject({ code: "interrupted" });
  });
});

describe("in chunks", () => {
  test("streams and messages stand between each other", async () => {
    const peer = await meet(interleaving(4_096));
    const [a, b] = [id(), id()];
    const ref = { size: bytes.length, interleave: true };
    peer.write(peer.announce({ ...ref, streamId: a }, { ...ref, streamId: b }));
    peer.write(
      frame("data", a, bytes.subarray(0, 10)),
      frame("data", b, bytes.subarray(0, 200)),
      ping,
      frame("data", a, bytes.subarray(10)),
      frame("end", a),
      frame("data", b, bytes.subarray(200)),
      frame("end", b),
    );
    expect(await outcomes(peer)).toEqual(["the bytes", "the bytes"]);
    expect(peer.messages[1]).toEqual(ping);
    expect(peer.faults).toEqual([]);
  });

  test.each([
    ["given up", "interrupted", (a: string) => [frame("abort", a)]],
    ["ended early", "interrupted", (a: string) => [frame("end", a)]],
    [
      "longer than announced",
      "protocol",
      (a: string) => [frame("data", a, bytes), frame("data", a, bytes)],
    ],
  ])("a stream that is %s ends, and no other does", async (_what, code, frames) => {
    const peer = await meet(interleaving(4_096));
    const streamId = id();
    peer.write(peer.announce({ streamId, size: 300, interleave: true }), ...frames(streamId));
    expect(await outcomes(peer)).toEqual([code]);
    expect(await isUsable(peer)).toBe(true);
  });

  test("chunks of a stream that was not announced reach no reader", async () => {
    const peer = await meet(interleaving(4_096));
    const known = id();
    peer.write(peer.announce({ streamId: known, size: bytes.length, interleave: true }));
    peer.write(frame("data", id(), bytes), frame("data", known, bytes), frame("end", known));
    expect(await outcomes(peer)).toEqual(["the bytes"]);
    expect(peer.faults).toMatchObject([{ code: "not_found" }]);
    expect(await isUsable(peer)).toBe(true);
  });

  test("the sender learns how much is read, and no more is held", async () => {
    const peer = await meet(interleaving(4_096), { windowBytes: 4_096 });
    const streamId = id();
    peer.write(peer.announce({ streamId, size: 10_000, interleave: true }));
    peer.write(frame("data", streamId, Buffer.alloc(4_096)));
    await expect.poll(() => peer.messages.length).toBe(1);
    expect(peer.pending()).toBe(0);
    const reader = openBinary(peer.messages[0]!["result"].content[0])!.body.getReader();
    await reader.read();
    expect(await peer.bytes(25)).toEqual(frame("credit", streamId, 4_096));
    // more than was asked for
    peer.write(
      frame("data", streamId, Buffer.alloc(4_096)),
      frame("data", streamId, Buffer.alloc(1)),
    );
    expect(await peer.bytes(25)).toEqual(frame("stop", streamId));
    await expect(reader.read()).rejects.toMatchObject({ code: "protocol" });
    expect(await isUsable(peer)).toBe(true);
  });

  test("the sender learns that a reader has left, and its earlier bytes are dropped", async () => {
    const peer = await meet(interleaving(4_096));
    const streamId = id();
    peer.write(peer.announce({ streamId, size: 10_000, interleave: true }));
    await expect.poll(() => peer.messages.length).toBe(1);
    await openBinary(peer.messages[0]!["result"].content[0])!.body.cancel();
    expect(await peer.bytes(25)).toEqual(frame("stop", streamId));
    peer.write(frame("data", streamId, bytes), frame("end", streamId));
    expect(await isUsable(peer)).toBe(true);
    expect(peer.faults).toEqual([]);
  });

  test("too many streams are refused one by one", async () => {
    const peer = await meet(interleaving(4_096), { maxStreams: 1 });
    const [a, b] = [id(), id()];
    const ref = { size: bytes.length, interleave: true };
    peer.write(peer.announce({ ...ref, streamId: a }, { ...ref, streamId: b }));
    peer.write(frame("data", a, bytes), frame("end", a));
    expect(await peer.bytes(25)).toEqual(frame("stop", b));
    expect(await outcomes(peer)).toEqual(["the bytes", "throttled"]);
  });

  test(
    "a peer that announces without end and reads no refusal is left",
    { tags: "slow" },
    async () => {
      const peer = await meet(interleaving(4_096));
      const refs = Array.from({ length: 5_000 }, () => ({
        streamId: id(),
        size: 1,
        interleave: true,
      }));
      peer.write(peer.announce(...refs));
      expect(await peer.closed).toMatchObject({ code: "protocol" });
      expect(peer.messages).toEqual([]);
    },
  );
});

test("an invalid message is a fault, and the next message counts", async () => {
  const peer = rawPeer("server");
  peer.write(Buffer.from("hello\n\n\r\n[1]\n"));
  expect(await isUsable(peer)).toBe(true);
  expect(peer.faults).toMatchObject([{ code: "protocol" }, { code: "protocol" }]);
});

test.each(["server", "client"] as const)(
  "a message or frame that the end of the pipe cuts is reported at the %s, an end between messages is not",
  async (role) => {
    const line = Buffer.from('{"jsonrpc":"2.0","method":"x"}\n');
    for (const end of [1, line.length - 2, line.length - 1]) {
      const peer = rawPeer(role);
      peer.write(line, line.subarray(0, end));
      peer.end();
      expect(await peer.closed).toMatchObject({
        code: "interrupted",
        message: "stdio: the pipe ended within a message or a frame",
      });
      expect(peer.messages).toHaveLength(1);
    }
    const peer = rawPeer(role);
    peer.write(line);
    peer.end();
    expect(await peer.closed).toBeUndefined();
  },
);

test("a client learns that its server ended within a message", async () => {
  const transport = createStdioClientTransport({
    command: process.execPath,
    args: ["-e", 'process.stdout.write(`{"jsonrpc":"2.0","id":1,"res`)'],
  });
  const errors: unknown[] = [];
  /* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */
  transport.onerror = (error) => void errors.push(error);
  const closed = new Promise<void>((resolve) => (transport.onclose = resolve));
  /* oxlint-enable unicorn/prefer-add-event-listener */
  await transport.start();
  await closed;
  expect(errors).toEqual([expect.objectContaining({ code: "interrupted" })]);
});

test("a server that declared nothing announces nothing, whatever its tools say", async () => {
  const peer = await meet({});
  peer.write(peer.announce({ streamId: id(), size: 300 }));
  expect(await isUsable(peer)).toBe(true);
  expect(peer.messages[0]!["result"].content[0]).not.toHaveProperty("_meta");
});
