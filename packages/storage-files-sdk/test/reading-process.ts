import { createFilesSdkBackend } from "@sluice/storage-files-sdk";
import { s3 } from "files-sdk/s3";

/** A bucket with an object for warming up and a large one. */
export interface ReadingOrder {
  readonly bucket: string;
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** Bytes read, and how far the resident set grew over its idle state, in bytes. */
export interface ReadingReport {
  readonly bytes: number;
  readonly growth: number;
}

const order = JSON.parse(process.argv[2] ?? "") as ReadingOrder;
const adapter = s3({ ...order, region: "us-east-1", forcePathStyle: true, conditional: true });
const backend = createFilesSdkBackend({ adapter });

async function read(key: string): Promise<number> {
  let bytes = 0;
  for await (const chunk of (await backend.open(key)).body) bytes += chunk.byteLength;
  return bytes;
}

// code that is compiled and buffers that are pooled belong to the idle state
await read("warm-up");
const idle = process.memoryUsage.rss();
let peak = idle;
setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 5).unref();
const bytes = await read("large");
adapter.raw.destroy();
console.log(JSON.stringify({ bytes, growth: peak - idle } satisfies ReadingReport));
