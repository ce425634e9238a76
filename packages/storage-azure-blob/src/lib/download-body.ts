import type { Readable } from "node:stream";
import { createBody } from "@sluice/storage/plugin";
import { toInterrupted } from "./azure-error.ts";

/** So much is taken from the socket ahead of the reader; then the socket waits. */
const aheadBytes = 512 * 1024;

/**
 * The body of a download: the parts as the network gives them, mostly 64 KiB. Gathering them to
 * larger chunks would copy every byte, which costs more than it saves. A cancel destroys the socket.
 */
export function createDownloadBody(
  stream: Readable,
  operation: string,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  const parts: Uint8Array[] = [];
  let ahead = 0;
  let ended = false;
  let failure: unknown;
  let wake: (() => void) | undefined;

  stream.on("data", (part: Uint8Array) => {
    parts.push(part);
    ahead += part.byteLength;
    if (ahead >= aheadBytes) stream.pause();
    wake?.();
  });
  stream.on("end", () => {
    ended = true;
    wake?.();
  });
  stream.on("error", (error) => (failure = error));
  stream.on("close", () => {
    failure ??= ended ? undefined : new Error("closed");
    wake?.();
  });
  stream.pause();

  return createBody({
    async next() {
      if (parts.length === 0 && !ended && failure === undefined) {
        stream.resume();
        await new Promise<void>((resolve) => (wake = resolve));
      }
      const part = parts.shift();
      if (part === undefined) {
        if (failure !== undefined) throw toInterrupted(failure, operation);
        return undefined;
      }
      // what came before a fault is right: a reader that goes on elsewhere need not fetch it again
      ahead -= part.byteLength;
      if (stream.isPaused()) stream.resume();
      return part;
    },
    release: () => void stream.destroy(),
    signal,
  });
}
