import { createAzureBlobBackend } from "@sluice/storage-azure-blob";
import { clientFor } from "./azurite.ts";

// moves this many bytes one way and tells by how much the resident set has grown at most
const [, , containerUrl = "", what = "", size = ""] = process.argv;
const mib = 2 ** 20;
const backend = createAzureBlobBackend({ client: clientFor(containerUrl), writable: true });
const kept: Uint8Array[] = [];

async function read(bytes: number, keep: boolean): Promise<void> {
  const { body } = await backend.open(`${bytes}`);
  for await (const chunk of body) if (keep) kept.push(chunk);
}

async function write(bytes: number): Promise<void> {
  const writer = await backend.write("written", { size: bytes });
  for (let sent = 0; sent < bytes; sent += mib / 4) await writer.write(Buffer.alloc(mib / 4, sent));
  await writer.commit();
}

const run = (bytes: number): Promise<void> =>
  what === "write" ? write(bytes) : read(bytes, what === "keep");

// code that is compiled and buffers that are pooled belong to the idle state
await run(32 * mib);
kept.length = 0;
const idle = process.memoryUsage.rss();
let peak = idle;
const sample = (): void => void (peak = Math.max(peak, process.memoryUsage.rss()));
const timer = setInterval(sample, 5);
await run(Number(size));
sample();
clearInterval(timer);
process.stdout.write(`${peak - idle}`);
