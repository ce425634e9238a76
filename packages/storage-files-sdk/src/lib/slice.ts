import { SluiceError } from "@sluice/core";
import { createBody } from "@sluice/storage/plugin";
import { createCause } from "./files-error.ts";

/** Which bytes of a stream are the promised ones. */
export interface Slice {
  /** Bytes to pass over first. */
  readonly skip: number;
  /** Bytes to hand on. */
  readonly length: number;
  /** More bytes may follow, because the stream is the whole object; else one more is a fault. */
  readonly cut: boolean;
  readonly operation: string;
  readonly signal: AbortSignal | undefined;
}

/** The promised bytes of a stream: an end before them is `interrupted`, a byte too many `corrupt`. */
export function sliceBody(
  stream: ReadableStream<Uint8Array>,
  { skip, length, cut, operation, signal }: Slice,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  let position = -skip;
  return createBody({
    async next() {
      if (cut && position >= length) return undefined;
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw new SluiceError("interrupted", `${operation}: the connection broke`, {
          cause: createCause(error),
        });
      });
      if (done && position === length) return undefined;
      if (done)
        throw new SluiceError(
          "interrupted",
          `${operation}: it ended before ${length} bytes had come`,
        );
      const first = position;
      position += value.byteLength;
      if (position > length && !cut)
        throw new SluiceError(
          "corrupt",
          `${operation}: more than the promised ${length} bytes came`,
        );
      return value.subarray(Math.max(0, -first), length - first);
    },
    release: (reason) => reader.cancel(reason),
    signal,
  });
}
