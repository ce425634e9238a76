import { createHash } from "node:crypto";
import { openBinary } from "@sluice/binary-transfer/client";
import { encodeStreamId } from "@sluice/binary-transfer/internal";
import { SluiceError } from "@sluice/core";
import { BINARY_ABORT_METHOD, BINARY_CREDIT_METHOD } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { createBinaryChannel, type BinaryChannel } from "../src/binary/binary-channel.ts";
import { randomNumbers } from "../../core/test/random-numbers.ts";

const count = process.env["SLUICE_DEEP"] ? 1_000_000 : 200;

type Random = (below: number) => number;
/** A text frame or a binary one. */
type Frame = string | Uint8Array;

// every stream has its own bytes, and mutations add none of them
const firstBytes = [0x80, 0x90, 0xa0];
const contents = firstBytes.map((first) =>
  Buffer.from(Array.from({ length: 60 }, (_, at) => first + (at % 16))),
);
const checksums = contents.map((content) => createHash("sha256").update(content).digest("hex"));
// too far apart for one to become another by accident
const idOf = (at: number): string =>
  "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx".replaceAll("x", String(at));
const rpc = (message: object): string => JSON.stringify({ jsonrpc: "2.0", ...message });

/** Two messages and the frames of three streams, with JSON between them. */
function conversation(interleave: boolean): Frame[] {
  const refs = contents.map((content, at) => ({
    uri: `x:${at}`,
    blob: "",
    binaryRef: {
      streamId: idOf(at),
      size: content.length,
      ...(at < 2 && { checksum: checksums[at] }),
      ...(interleave && { interleave }),
    },
  }));
  const frames: Frame[] = [rpc({ id: 1, result: { contents: refs } })];
  for (let from = 0; from < 60; from += 20)
    for (const [at, content] of contents.entries())
      frames.push(
        Buffer.concat([encodeStreamId(idOf(at)), content.subarray(from, from + 20)]),
        rpc({ method: "notifications/other", params: { from } }),
      );
  return frames;
}

const mutations: readonly ((frames: Frame[], random: Random) => void)[] = [
  (frames, random) => void frames.splice(random(frames.length), 1),
  (frames, random) => void frames.splice(random(frames.length)),
  (frames, random) => {
    const frame = frames[random(frames.length)]!;
    frames.splice(random(frames.length + 1), 0, frame);
  },
  (frames, random) => {
    const [moved] = frames.splice(random(frames.length), 1);
    frames.splice(random(frames.length + 1), 0, moved!);
  },
  (frames, random) => change(frames, random, (frame) => frame.subarray(0, random(frame.length))),
  (frames, random) =>
    change(frames, random, (frame) => {
      const changed = Buffer.from(frame);
      changed[random(changed.length)] = random(0x80);
      return changed;
    }),
  (frames, random) =>
    change(frames, random, (frame) => Buffer.concat([frame, Buffer.alloc(random(200))])),
  (frames, random) =>
    void frames.splice(random(frames.length + 1), 0, Buffer.alloc(random(100), random(0x80))),
  (frames, random) => {
    const method = random(2) ? BINARY_ABORT_METHOD : BINARY_CREDIT_METHOD;
    const params = [
      { streamId: idOf(random(4)), reason: "interrupted", bytes: random(100) },
      { streamId: 5, bytes: -1 },
      undefined,
    ][random(3)];
    frames.splice(random(frames.length + 1), 0, rpc({ method, params }));
  },
  (frames, random) => {
    const [text] = frames;
    if (typeof text !== "string") return;
    const changes = [
      text.replace(/"size":\d+/, `"size":${random(120)}`),
      text.replace(idOf(random(3)), idOf(random(3))),
      text.replace(/"streamId":"[^"]+"/, '"streamId":7'),
      text.replace(checksums[0]!, checksums[1]!),
      text.replace('"id":1', '"id":2'),
    ];
    frames[0] = changes[random(changes.length)]!;
  },
];

/** Changes one of the binary frames, if there is one. */
function change(frames: Frame[], random: Random, how: (frame: Uint8Array) => Uint8Array): void {
  const at = random(frames.length);
  const frame = frames[at];
  if (frame instanceof Uint8Array && frame.length > 0) frames[at] = how(frame);
}

interface Outcome {
  readonly faults: unknown[];
  /** Streams that ended well. */
  readonly whole: number;
}

/** The bytes of a conversation for an application that reads everything. */
async function take(frames: readonly Frame[]): Promise<Outcome> {
  const faults: unknown[] = [];
  const declared = { binaryTransfer: { supported: true, supportedModes: ["websocket-binary"] } };
  const channel: BinaryChannel = createBinaryChannel(
    "client",
    { maxBinaryBytes: 100, windowBytes: 64, declared },
    {
      sendText: (text) => void JSON.parse(text),
      sendBinary: async () => {},
      canPause: true,
      pauseUntil: () => {},
      breakOff: () => {},
      onError: (error) => faults.push(error),
    },
  );
  const reading: Promise<boolean>[] = [];
  for (const frame of frames) {
    if (typeof frame !== "string") channel.readFrame(frame);
    else {
      const { message } = channel.read(JSON.parse(frame) as object);
      const { result } = (message ?? {}) as { result?: { contents?: object[] } };
      for (const content of result?.contents ?? []) reading.push(readOne(content, faults));
    }
  }
  // readers first, then the end: complete streams are kept
  await new Promise((resolve) => setImmediate(resolve));
  channel.close(new SluiceError("interrupted", "over"));
  const ended = await Promise.all(reading);
  return { faults, whole: ended.filter(Boolean).length };
}

async function readOne(content: object, faults: unknown[]): Promise<boolean> {
  const { binaryRef } = content as { binaryRef?: { streamId: string } };
  const own = [0, 1, 2].find((at) => idOf(at) === binaryRef?.streamId);
  try {
    const opened = openBinary(content)!;
    const chunks: Uint8Array[] = [];
    for await (const chunk of opened.body as unknown as AsyncIterable<Uint8Array>) {
      chunks.push(chunk);
      for (const byte of chunk)
        if (byte >= 0x80 && firstBytes.indexOf(byte & 0xf0) !== own)
          throw new Error(`stream ${own} has bytes of another`);
    }
    const { sha256: checksum } = opened;
    const sum = createHash("sha256").update(Buffer.concat(chunks)).digest("hex");
    if (checksum !== undefined && checksum !== sum)
      throw new Error("a stream ended well with other bytes");
    return true;
  } catch (error) {
    faults.push(error);
    return false;
  }
}

test("frames that are not what was sent have named errors, end, and mix no streams", async () => {
  const random = randomNumbers(11);
  let refused = 0;
  for (let run = 0; run < count; run += 1) {
    const frames = conversation(run % 2 === 0);
    for (let times = random(3); times >= 0; times -= 1)
      if (frames.length > 0) mutations[random(mutations.length)]!(frames, random);
    const { faults } = await take(frames);
    for (const fault of faults)
      if (!SluiceError.is(fault)) throw new Error(`run ${run}`, { cause: fault });
    if (faults.length > 0) refused += 1;
  }
  // the mutations do reach the rules
  expect(refused).toBeGreaterThan(count / 4);
}, 3_600_000);

test("negative control: an unaltered message is read without a fault", async () => {
  for (const interleave of [true, false])
    expect(await take(conversation(interleave))).toEqual({ faults: [], whole: 3 });
});
