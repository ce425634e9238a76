/** A client in a process of its own: does the downloads that its parent asks for, one after the other. */
import { streamResource } from "@sluice/client";
import { SluiceError } from "@sluice/core";
import { connect } from "../clients.ts";
import { watchMemory } from "../watch.ts";

/** One download. */
export interface DownloadOrder {
  readonly url: string;
  readonly uri: string;
  /** What to do with the bytes. Default `count`. */
  readonly use?: "count" | "keep" | "save";
  /** Where to save. */
  readonly path?: string;
  readonly trustedOrigins?: readonly string[];
  readonly maxStreamBytes?: number;
}

/** How it went. */
export interface DownloadReport {
  readonly bytes?: number;
  /** Code of the `SluiceError`, or what else was thrown. */
  readonly error?: string;
}

const memory = watchMemory();

async function run({ url, uri, use, path, trustedOrigins = [], ...rest }: DownloadOrder) {
  const client = await connect("SDK v2, modern", url);
  try {
    const stream = await streamResource(client, uri, {
      trustedOrigins,
      timeouts: { pauseScale: 0 },
      ...rest,
    });
    if (use === "save") return (await stream.saveTo(path!)).size;
    const kept = [];
    let bytes = 0;
    for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (use === "keep") kept.push(Buffer.from(chunk));
    }
    return bytes;
  } finally {
    await client.close();
  }
}

process.on("message", (order: DownloadOrder | "memory") => {
  if (order === "memory") {
    process.send!(memory());
    return;
  }
  run(order).then(
    (bytes) => process.send!({ bytes } satisfies DownloadReport),
    (error: unknown) =>
      process.send!({
        error: SluiceError.is(error) ? error.code : String(error),
      } satisfies DownloadReport),
  );
});
process.on("disconnect", () => process.exit(0));
process.send!("ready");
