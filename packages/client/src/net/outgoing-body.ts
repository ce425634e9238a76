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
  /** Sees each chunk on its way, with its place in the file, unless the platform reads it by itself. */
  readonly seen?: (chunk: Uint8Array, at: number) => void;
}

/** A file of a fixed size that is read at any place. */
export interface ReadableFile {
  /**
   * Its bytes from `start` to `end`. The memory of a chunk is used again after the next pull. Throws
   * `precondition_failed` when the file has changed.
   */
  chunks(start: number, end: number): AsyncIterable<Uint8Array>;
  /** The same for a platform that reads by itself. */
  blob?(start: number, end: number): Blob;
}

/** Longest stretch of a file that is read into memory. */
export const stretchBytes: number = 8 * 2 ** 20;

/** A body for `fetch`. Short stretches are read into memory, where they are seen; the platform streams the others. */
export async function blobOf({ pieces }: OutgoingBody): Promise<Blob> {
  const parts: (Uint8Array<ArrayBuffer> | Blob)[] = [];
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      parts.push(piece);
      continue;
    }
    const { file, start, end, seen } = piece;
    if (end - start > stretchBytes && file.blob) {
      parts.push(file.blob(start, end));
      continue;
    }
    let at = start;
    for await (const chunk of file.chunks(start, end)) {
      seen?.(chunk, at);
      at += chunk.length;
      parts.push(chunk.slice());
    }
  }
  return new Blob(parts);
}
