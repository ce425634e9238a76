import type { Writable } from "node:stream";
import type { Outgoing } from "./sender.ts";

/**
 * Writes a body piece by piece, each when the one before it went out, so that memory may be used
 * again. Ends early, without an error, when `stop` fires; rejects with what reading threw.
 */
export async function writeBody(
  target: Writable,
  { pieces }: Outgoing,
  stop: AbortSignal,
  handed: (bytes: number) => void,
): Promise<void> {
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      if (stop.aborted) return;
      await write(target, piece, stop, handed);
      continue;
    }
    let at = piece.start;
    for await (const chunk of piece.file.chunks(piece.start, piece.end)) {
      if (stop.aborted) return;
      piece.seen?.(chunk, at);
      at += chunk.length;
      await write(target, chunk, stop, handed);
    }
  }
}

/** A request that is destroyed before it has a connection never says what became of its bytes. */
function write(
  target: Writable,
  chunk: Uint8Array,
  stop: AbortSignal,
  handed: (bytes: number) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stop.removeEventListener("abort", done);
      resolve();
    };
    stop.addEventListener("abort", done, { once: true });
    // what went wrong with the connection is told by the request itself
    target.write(chunk, done);
    handed(chunk.length);
  });
}
