import type { WriteChunk } from "@sluice/core";
/** Where the chunks of an object go. */
export interface ChunkSink {
  /** Writes a chunk that begins at an offset of the object, under the terms of {@link WriteChunk}. */
  write(chunk: Uint8Array, at: number, release?: () => void): Promise<void> | void;
}
