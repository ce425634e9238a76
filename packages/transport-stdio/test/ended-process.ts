// Breaks connections and tells how many bytes each kind left in memory, as one line of JSON. A
// separate process: in one that has loaded much else, a run of the collector takes a hundred times
// as long. Argument: how many of a kind.
import { PassThrough } from "node:stream";
import { memoryGrowth } from "../../core/test/memory-growth.ts";
import { StdioChannel } from "../src/channel/stdio-channel.ts";
import { frame, interleaving, whole } from "./raw-frames.ts";

const connections = Number(process.argv[2]);
const streamId = "11111111-1111-4111-8111-111111111111";
const bytes = Buffer.alloc(16_384);

/** A server that announces bytes, sends some of them, and ends; the application opens none of them. */
async function connect(sent: Buffer, interleave: boolean): Promise<void> {
  const input = new PassThrough();
  let end: (error?: Error) => void = () => {};
  const closed = new Promise<Error | undefined>((resolve) => (end = resolve));
  const channel = new StdioChannel(
    "client",
    { input, output: new PassThrough().resume() },
    { message() {}, fault() {}, closed: end },
  );
  await channel.send({ jsonrpc: "2.0", id: 1, method: "initialize", params: {} });
  const binaryRef = { streamId, size: bytes.length, ...(interleave && { interleave }) };
  const results = [
    { capabilities: interleaving(4_096) },
    { content: [{ type: "image", binaryRef }] },
  ];
  for (const [i, result] of results.entries())
    input.write(`${JSON.stringify({ jsonrpc: "2.0", id: i + 1, result })}\n`);
  input.end(sent);
  await closed;
}

/** The bytes before the end, and whether in chunks. */
const kinds = {
  "within a transfer": [whole(streamId, bytes).subarray(0, 9_000), false],
  "between two chunks": [frame("data", streamId, bytes.subarray(0, 4_000)), true],
  "before the first byte": [Buffer.alloc(0), false],
} as const;

/** Bytes by the place where connections broke. */
export type Left = Record<keyof typeof kinds, number>;

const left: Partial<Left> = {};
for (const [kind, [sent, interleave]] of Object.entries(kinds))
  left[kind as keyof Left] = await memoryGrowth(async (count) => {
    for (let i = 0; i < count; i += 1) await connect(sent, interleave);
  }, connections);
process.stdout.write(JSON.stringify(left));
