import type { Readable } from "node:stream";
import { SluiceError } from "@sluice/core";
import { createBody } from "@sluice/storage/plugin";

/** How a body names itself in errors, and what ends it. */
export interface S3BodyOptions {
  readonly who: string;
  readonly signal: AbortSignal | undefined;
}

/**
 * The body of an answer, read when it is asked for. What the socket has read by then comes as one
 * chunk; while nobody reads, the socket is paused. Cancelling destroys it.
 */
export function createS3Body(
  message: Readable,
  { who, signal }: S3BodyOptions,
): ReadableStream<Uint8Array> {
  // a reset while nobody reads is told by the next read
  message.on("error", () => {});
  let chunks: AsyncIterator<Buffer> | undefined;
  return createBody({
    async next() {
      chunks ??= message[Symbol.asyncIterator]();
      try {
        const { done, value } = await chunks.next();
        return done ? undefined : value;
      } catch (error) {
        throw new SluiceError("interrupted", `${who}: the connection broke`, { cause: error });
      }
    },
    release: () => void message.destroy(),
    signal,
  });
}
