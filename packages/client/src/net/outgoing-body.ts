/** A body of known length: what goes out, in order. It can be sent again. */
export interface OutgoingBody {
  readonly length: number;
  readonly pieces: readonly BodyPiece[];
}

/** Bytes, or a stretch of a file. */
export type BodyPiece = Uint8Array<ArrayBuffer> | FilePiece;

/** A stretch of a file. */
export interface FilePiece {
  readonly file: ReadableFile;
  readonly start: number;
  readonly end: number;
  /** Sees each chunk on its way, with its place in the file, unless the platform reads so many by itself. */
  readonly seen?: (chunk: Uint8Array, at: number) => void;
}

/** A file of a fixed size that is read at any place. */
export interface ReadableFile {
  /**
   * Its bytes from `start` to `end`. The memory of a chunk is used again after the next pull.
   * Throws `precondition_failed` when the file changed meanwhile.
   */
  chunks(start: number, end: number): AsyncIterable<Uint8Array>;
  /** The same for a platform that reads by itself. */
  blob?(start: number, end: number): Blob;
}
