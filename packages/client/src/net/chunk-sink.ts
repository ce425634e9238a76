/**
 * Writes a chunk: for good or, with `release`, out of memory that is lent until that is called. Chunks of one block come
 * with the same `release`, which is called once for each. A promise means: no more until it resolves.
 */
export type WriteChunk = (chunk: Uint8Array, release?: () => void) => Promise<void> | void;

/** Where the chunks of an object go. */
export interface ChunkSink {
  /** Writes a chunk that begins at an offset of the object, under the terms of {@link WriteChunk}. */
  write(chunk: Uint8Array, at: number, release?: () => void): Promise<void> | void;
}

/** Memory that chunks may be lent in: as many blocks, in turn, as are not lent. */
export interface Lending {
  readonly blocks: number;
  readonly blockBytes: number;
  /** The blocks are `SharedArrayBuffer`s, which another thread can read. */
  readonly isShared?: boolean;
}

/** A block is handed on, rather than read into, when it has less room than this. */
export const leastRoomBytes: number = 65_536;
