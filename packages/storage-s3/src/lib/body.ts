import type { Readable } from "node:stream";
import { SluiceError } from "@sluice/core";
import { createBody } from "@sluice/storage/plugin";

/** Settings of {@link createS3Body}. */
export interface S3BodyOptions {
  /** Start of messages. */
  readonly operation: string;
  readonly signal: AbortSignal | undefined;
}

/**
 * The body of an answer, read when it is asked for. What the socket has read by then comes as one
 * chunk; the socket is paused between reads. Cancelling destroys it.
 */
export function createS3Body(
  message: Readable,
  { operation, signal }: S3BodyOptions,
): ReadableStream<Uint8Array> {
  // the next read reports a reset that comes between reads
  message.on("error", () => {});
  let chunks: AsyncIterator<Buffer> | undefined;
  return createBody({
    async next() {
      chunks ??= message[Symbol.asyncIterator]();
      try {
        const { done, value } = await chunks.next();
        return done ? undefined : value;
      } catch (error) {
        throw new SluiceError("interrupted", `${operation}: the connection broke`, {
          cause: error,
        });
      }
    },
    release: () => void message.destroy(),
    signal,
  });
}
