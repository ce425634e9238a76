import { createHash } from "node:crypto";
import { openBinary } from "@sluice/binary-transfer";
import { SluiceError } from "@sluice/core";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";
import type { FrameKind } from "../src/frames/frame-format.ts";
import { StdioChannel } from "../src/channel/stdio-channel.ts";
import { frame, interleaving, whole } from "./raw-frames.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const count = deep ? 400_000 : 500;

/** Each stream has its own bytes, and mutations add none of them. */
const streams = [0x80, 0x90, 0xa0, 0xb0].map((first, i) => {
  const bytes = Buffer.from(Array.from({ length: 40 }, (_, at) => first + (at % 16)));
  return {
    streamId: `0000000${i}-0000-4000-8000-00000000000${i}`,
    bytes,
    first,
    checksum: createHash("sha256").update(bytes).digest("hex"),
  };
});

type Random = (below: number) => number;

/** The bytes of an honest peer: two whole transfers, and two in chunks. */
function script(random: Random, hasChecksums: boolean): Buffer[] {
  const refs = streams.map(({ streamId, bytes, checksum }, i) => ({
    streamId,
    size: bytes.length,
    ...(hasChecksums && { checksum }),
    ...(i >= 2 && { interleave: true }),
  }));
  const content = refs.map((binaryRef) => ({ type: "image", binaryRef }));
  const parts: Buffer[] = [
    Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", id: 2, result: { content } })}\n`),
  ];
  for (const { streamId, bytes } of streams.slice(0, 2)) parts.push(whole(streamId, bytes));
  for (const { streamId, bytes } of streams.slice(2)) {
    const cut = random(bytes.length);
    parts.push(frame("data", streamId, bytes.subarray(0, cut)), Buffer.from("{}\n"));
    parts.push(frame("data", streamId, bytes.subarray(cut)), frame("end", streamId));
  }
  return parts;
}

const kinds: readonly FrameKind[] = ["end", "abort", "credit", "stop"];

type Mutation = (parts: Buffer[], random: Random) => void;

/** Frames and messages stay what they are, and stand where they should not. */
const misplaced: readonly Mutation[] = [
  (parts, random) => void parts.splice(random(parts.length), 1),
  (parts, random) => void parts.splice(random(parts.length), 0, parts[random(parts.length)]!),
  (parts, random) => void parts.splice(random(parts.length), parts.length),
  (parts, random) => {
    const kind = kinds[random(kinds.length)]!;
    const added = frame(kind, streams[random(4)]!.streamId, random(3) * 2 ** 50);
    parts.splice(random(parts.length), 0, added);
  },
  (parts, random) => {
    const [a, b] = [random(parts.length), random(parts.length)];
    [parts[a], parts[b]] = [parts[b]!, parts[a]!];
  },
];

/** Bytes go missing or are others: a frame may count those of the next one as its own. */
const damaged: readonly Mutation[] = [
  (parts, random) => {
    const part = (parts[random(parts.length)] = Buffer.from(parts[random(parts.length)]!));
    part[random(part.length)] = random(0x80);
  },
  (parts, random) => {
    const at = random(parts.length);
    parts[at] = parts[at]!.subarray(0, random(parts[at]!.length));
  },
  (parts, random) => {
    parts.splice(random(parts.length), 0, Buffer.alloc(random(60), random(0x80)));
  },
];

function ensureNamed(error: unknown): void {
  if (!SluiceError.is(error)) throw error;
}

interface Got {
  readonly first: number;
  readonly got: Buffer;
  readonly clean: boolean;
}

/** The bytes of each stream for the application before its end, whatever the end was. */
async function receive(bytes: Buffer, step: number): Promise<Got[]> {
  const input = new PassThrough();
  const messages: Record<string, any>[] = [];
  let end: () => void = () => {};
  const closed = new Promise<void>((resolve) => (end = resolve));
  const channel = new StdioChannel(
    "client",
    { input, output: new PassThrough().resume() },
    {
      message: (message) => void messages.push(message),
      fault: (error) => ensureNamed(error),
      closed: () => end(),
    },
    { maxBinaryBytes: 10_000 },
  );
  await channel.send({ jsonrpc: "2.0", id: 1, method: "initialize", params: {} });
  const answer = { jsonrpc: "2.0", id: 1, result: { capabilities: interleaving(4_096) } };
  input.write(`${JSON.stringify(answer)}\n`);
  for (let at = 0; at < bytes.length; at += step) input.write(bytes.subarray(at, at + step));
  input.end();
  await closed;
  const contents = messages.flatMap((message) => (message["result"]?.content ?? []) as object[]);
  return Promise.all(
    contents.map(async (content, i) => {
      const chunks: Uint8Array[] = [];
      const result = (clean: boolean) => ({
        first: streams[i % 4]!.first,
        got: Buffer.concat(chunks),
        clean,
      });
      try {
        const opened = openBinary(content);
        if (!opened) return result(false);
        for await (const chunk of opened.body) chunks.push(chunk);
        return result(true);
      } catch (error) {
        ensureNamed(error);
        return result(false);
      }
    }),
  );
}

/** True when what came belongs to the stream, and is as much as it has where it ended cleanly. */
function isOwn({ first, got, clean }: Got, isDamaged: boolean): boolean {
  const own = streams.find((stream) => stream.first === first)!.bytes;
  if (isDamaged) return !clean || got.equals(own);
  return got.every((byte) => (byte & 0xf0) === first) && (!clean || got.length === own.length);
}

test(
  `${count} mutated frame streams: no exit, no hang, no byte of another stream`,
  async () => {
    const random = randomNumbers(7);
    const outcomes = { clean: 0, broken: 0 };
    for (let i = 0; i < count; i += 1) {
      // without a checksum only what stands in the right frame can be told from the rest
      const isDamaged = i % 2 === 0;
      const mutations = isDamaged ? [...misplaced, ...damaged] : misplaced;
      const parts = script(random, isDamaged);
      for (let times = random(3); times > 0 && parts.length > 0; times -= 1)
        mutations[random(mutations.length)]!(parts, random);
      const bytes = Buffer.concat(parts);
      for (const got of await receive(bytes, 200 + random(bytes.length + 1))) {
        if (!isOwn(got, isDamaged)) throw new Error(`run ${i}: bytes that are not its own`);
        outcomes[got.clean ? "clean" : "broken"] += 1;
      }
    }
    // the mutations do break something, and not everything
    expect(outcomes.clean).toBeGreaterThan(count / 4);
    expect(outcomes.broken).toBeGreaterThan(count / 4);
  },
  deep ? 7_200_000 : undefined,
);

test("bytes of another stream, too few and too many are found", () => {
  const [a, b] = streams;
  expect(isOwn({ first: a!.first, got: a!.bytes, clean: true }, true)).toBe(true);
  for (const isDamaged of [false, true]) {
    expect(isOwn({ first: a!.first, got: b!.bytes, clean: true }, isDamaged)).toBe(false);
    expect(isOwn({ first: a!.first, got: a!.bytes.subarray(1), clean: true }, isDamaged)).toBe(
      false,
    );
  }
  expect(isOwn({ first: a!.first, got: b!.bytes.subarray(1), clean: false }, false)).toBe(false);
});
