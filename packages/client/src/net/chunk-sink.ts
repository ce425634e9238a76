/** Where the chunks of an object go. */
export interface ChunkSink {
  /** Writes a chunk that begins at an offset of the object, under the terms of `WriteChunk` of core. */
  write(chunk: Uint8Array, at: number, release?: () => void): Promise<void> | void;
}
