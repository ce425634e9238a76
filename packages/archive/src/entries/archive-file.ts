import type { OpenedObject } from "@sluice/storage";

/** One file of a set. A set holds the files that the caller may list and stream, in listing order. */
export interface ArchiveFile {
  /** Legal key, below the prefix of the set. */
  readonly key: string;
  readonly lastModified?: Date;
  readonly size?: number;
  /** Opens the file once. Gives `undefined`, or rejects with `not_found`, if it is gone by now. */
  open(options: { readonly signal?: AbortSignal }): Promise<OpenedObject | undefined>;
}

/** A file as a format writes it. */
export interface ArchiveEntry {
  /** Safe path in the archive, in segments joined by `/`, at most 900 UTF-8 bytes. */
  readonly path: string;
  /** Bytes that {@link chunks} yields; `undefined` if the storage cannot know. */
  readonly size: number | undefined;
  readonly modified: Date | undefined;
  /** The bytes, read once and to the end before the next entry. Throws when there are fewer or more than `size`. */
  readonly chunks: AsyncIterable<Uint8Array>;
}
