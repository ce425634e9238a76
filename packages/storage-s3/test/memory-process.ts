import { createS3Backend } from "@sluice/storage-s3";

/** What {@link MemoryReport} is about. */
export interface MemoryOrder {
  readonly bucket: string;
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly work: "read" | "write" | "keep";
  readonly warmUp: string;
  readonly key: string;
  readonly bytes: number;
}

/** Bytes moved, and the growth of the resident set over the idle state, in bytes. */
export interface MemoryReport {
  readonly bytes: number;
  readonly growth: number;
}

const chunk = new Uint8Array(256 * 1024);
const kept: Uint8Array[] = [];
const order = JSON.parse(process.argv[2] ?? "") as MemoryOrder;
const backend = createS3Backend({ ...order, writable: true });

async function read(key: string, keep: boolean): Promise<number> {
  let bytes = 0;
  for await (const part of (await backend.open(key)).body) {
    bytes += part.byteLength;
    if (keep) kept.push(part);
  }
  return bytes;
}

async function write(key: string, bytes: number): Promise<number> {
  await using writer = await backend.write(key);
  for (let written = 0; written < bytes; written += chunk.byteLength) await writer.write(chunk);
  return (await writer.commit()).size ?? 0;
}

// code that is compiled and buffers that are pooled belong to the idle state
await read(order.warmUp, false);
if (order.work === "write") await write(order.warmUp, 16 * 1024 * 1024);
const idle = process.memoryUsage.rss();
let peak = idle;
setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 5).unref();
const bytes =
  order.work === "write"
    ? await write(order.key, order.bytes)
    : await read(order.key, order.work === "keep");
peak = Math.max(peak, process.memoryUsage.rss());
await backend.close?.();
process.send?.({ bytes, growth: peak - idle } satisfies MemoryReport);
process.disconnect();
