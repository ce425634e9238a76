// Reads a resource from a server process and tells what that cost, as one line of JSON. Arguments: the
// server's program, a folder with `small.bin` and `large.bin`, and "keep" to keep all of it in memory.
import { Client } from "@modelcontextprotocol/client";
import { readBinary } from "@sluice/binary-transfer/client";
import { createStdioClientTransport } from "@sluice/transport-stdio/client";

/** The cost of one transfer. */
export interface ReadingCost {
  readonly bytes: number;
  readonly ms: number;
  /** Maximum memory over that before the transfer, in bytes: of this process and of the server. */
  readonly growth: readonly [client: number, server: number];
  /** Milliseconds until calls in the middle of it were answered, and of such calls before it. */
  readonly calls: readonly number[];
  readonly idleCalls: readonly number[];
}

const [program, folder, mode] = process.argv.slice(2) as [string, string, string?];
const transport = createStdioClientTransport({
  command: process.execPath,
  args: [program, folder],
});
const client = new Client({ name: "reader", version: "1.0.0" });
await client.connect(transport);

/** Memory of the server; and how long it took to say it. */
async function ask(): Promise<{ rss: number; ms: number }> {
  const askedAt = performance.now();
  const { content } = await client.callTool({ name: "rss" });
  const [{ text }] = content as unknown as [{ text: string }];
  return { rss: Number(text), ms: performance.now() - askedAt };
}

const kept: Uint8Array[] = [];
const asked: Promise<{ rss: number; ms: number }>[] = [];

async function readAll(name: string): Promise<number> {
  const { body, size } = await readBinary(client, `files://demo/${name}`);
  const step = Math.ceil(size / 8);
  let bytes = 0;
  let rss = 0;
  for await (const chunk of body) {
    if (mode === "keep") kept.push(chunk);
    if (Math.floor(bytes / step) !== Math.floor((bytes + chunk.length) / step)) {
      asked.push(ask());
      rss = Math.max(rss, process.memoryUsage().rss);
    }
    bytes += chunk.length;
  }
  peak = Math.max(peak, rss, process.memoryUsage().rss);
  return bytes;
}

let peak = 0;
await readAll("small.bin");
await Promise.all(asked.splice(0));
const idleCalls: number[] = [];
for (let i = 0; i < 8; i += 1) idleCalls.push((await ask()).ms);
const before = [process.memoryUsage().rss, (await ask()).rss] as const;
peak = 0;
const startedAt = performance.now();
const bytes = await readAll("large.bin");
const ms = performance.now() - startedAt;
const answers = await Promise.all(asked);
const server = Math.max(...answers.map(({ rss }) => rss));
const cost: ReadingCost = {
  bytes,
  ms,
  growth: [peak - before[0], server - before[1]],
  calls: answers.map((answer) => answer.ms),
  idleCalls,
};
console.log(JSON.stringify(cost));
await client.close();
