import { expect, test, vi } from "vitest";
import { FrameParser, type FrameTaker } from "../src/frames/frame-parser.ts";
import { frame, whole } from "./raw-frames.ts";
import { rawPeer } from "./raw-peer.ts";

const a = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
const b = "7b7b7b7b-7b7b-4b7b-8b7b-7b7b7b7b7b7b";
const limits = { maxLineBytes: 100 };

/** The findings of a parser, as text. `@2` in a line announces two whole transfers. */
function listen(): { readonly taker: FrameTaker; readonly found: string[] } {
  const found: string[] = [];
  const payload = (name: string) => {
    let text = "";
    return {
      write: (bytes: Uint8Array) => void (text += Buffer.from(bytes).toString("latin1")),
      end: () => void found.push(`${name} ${text}`),
    };
  };
  const taker: FrameTaker = {
    line(text) {
      found.push(text);
      return Number(/@(\d)/.exec(text)?.[1] ?? 0);
    },
    transfer: ({ streamId, count }) => payload(`whole ${streamId[0]} ${count}`),
    transferred: () => void found.push("transferred"),
    chunk: ({ streamId }) => payload(`chunk ${streamId[0]}`),
    control: (kind, { streamId, count }) => void found.push(`${kind} ${streamId[0]} ${count}`),
  };
  return { taker, found };
}

const text = (value: string): Buffer => Buffer.from(value);

test("messages and frames come out the same wherever the pipe cuts them [BINARY/3.a.stream/frame] [BINARY/transports/stdio]", () => {
  // ids that begin like JSON, bytes that look like messages and like frames
  const stream = Buffer.concat([
    text('{"one":"é"}\r\n{"@2":1}\n'),
    whole(b, text('{"not":"a message"}\n')),
    whole(a, new Uint8Array([1, 2, 10, 3])),
    text('{"three":3}\n'),
    frame("data", b, text("\n{}\n")),
    frame("credit", a, 70_000),
    text("[]\n"),
    frame("data", a, text("")),
    frame("end", b),
    frame("abort", a),
    frame("stop", a),
    text('{"@1":1}\n'),
    whole(a, new Uint8Array(0)),
    text("\n"),
  ]);
  const expected = [
    '{"one":"é"}',
    '{"@2":1}',
    'whole 7 20 {"not":"a message"}\n',
    "whole a 4 \x01\x02\n\x03",
    "transferred",
    '{"three":3}',
    "chunk 7 \n{}\n",
    "credit a 70000",
    "[]",
    "chunk a ",
    "end 7 0",
    "abort a 0",
    "stop a 0",
    '{"@1":1}',
    "whole a 0 ",
    "transferred",
    "",
  ];
  for (let step = 1; step <= stream.length; step += step < 60 ? 1 : 61) {
    const { taker, found } = listen();
    const parser = new FrameParser(taker, limits);
    for (let at = 0; at < stream.length; at += step)
      void parser.push(stream.subarray(at, at + step));
    expect(found).toEqual(expected);
    expect(parser.isWithin).toBe(false);
  }
});

test("text in place of an announced frame is neither a message nor a header", () => {
  const { taker, found } = listen();
  const parser = new FrameParser(taker, limits);
  void parser.push(text('{"@1":1}\n'));
  expect(parser.isWithin).toBe(true);
  expect(() => parser.push(text('{"id":1,"method":"tools/call"}\n'))).toThrow(
    expect.objectContaining({ code: "protocol" }),
  );
  expect(found).toEqual(['{"@1":1}']);
});

test("the next bytes have to wait for a slow taker", async () => {
  const { taker, found } = listen();
  let go: () => void = () => {};
  const wait = new Promise<void>((resolve) => (go = resolve));
  const parser = new FrameParser(
    { ...taker, chunk: () => ({ write: () => wait, end() {} }) },
    limits,
  );
  const waiting = parser.push(Buffer.concat([frame("data", a, text("x")), text("{}\n")]));
  expect(found).toEqual([]);
  go();
  await waiting;
  expect(found).toEqual(["{}"]);
});

test.each([
  ["a message over the limit", "too_large", text("x".repeat(101))],
  ["a chunk over 1 MiB", "protocol", frame("data", a, 2 ** 20 + 1)],
  ["a size beyond 2^53", "protocol", Buffer.concat([text("\x01"), new Uint8Array(24).fill(255)])],
])("%s ends it all", (_what, code, bytes) => {
  const { taker } = listen();
  expect(() => new FrameParser(taker, limits).push(bytes)).toThrow(
    expect.objectContaining({ code }),
  );
});

test("a message of the largest size is taken, even in pieces", () => {
  const { taker, found } = listen();
  const parser = new FrameParser(taker, limits);
  for (let i = 0; i < 100; i += 1) void parser.push(text("x"));
  void parser.push(text("\n"));
  expect(found).toEqual(["x".repeat(100)]);
});

test("a line nested deeper than 128 levels is refused before it is parsed", async () => {
  const line = (levels: number): Buffer =>
    Buffer.from(
      `{"jsonrpc":"2.0","id":1,"method":"ping","a":${"[".repeat(levels)}${"]".repeat(levels)}}\n`,
    );
  const peer = rawPeer("server");
  peer.write(line(127));
  await expect.poll(() => peer.messages).toMatchObject([{ method: "ping" }]);
  const parse = vi.spyOn(JSON, "parse");
  try {
    peer.write(line(128));
    await expect.poll(() => peer.faults).toMatchObject([{ code: "protocol" }]);
    expect(parse).not.toHaveBeenCalled();
  } finally {
    parse.mockRestore();
  }
  expect(peer.messages).toHaveLength(1);
});
