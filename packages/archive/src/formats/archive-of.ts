import { createBody } from "@sluice/storage/plugin";
import { type ArchiveEntry, type ArchiveFile, readEntries } from "../entries/read-entries.ts";
import { writeTar } from "./tar-archive.ts";
import { writeZip } from "./zip-archive.ts";

/** How an archive is written. Both store files as they are, without compression. */
export type ArchiveFormat = "zip" | "tar";

/** Options of {@link archiveOf}. */
export interface ArchiveOfOptions {
  readonly format: ArchiveFormat;
  /** Left out of the paths in the archive: empty, or ending with `/`. Every key begins with it. Default: "". */
  readonly prefix?: string | undefined;
  /** Maximum number of files; one more ends the archive with `too_large`. Default: 100,000. */
  readonly maxFiles?: number | undefined;
  /** Ends the archive with `signal.reason`, and the listing and the open file with it. */
  readonly signal?: AbortSignal | undefined;
}

type WriteFormat = (entries: AsyncIterable<ArchiveEntry>) => AsyncGenerator<Uint8Array, undefined>;

const formats: Readonly<Record<ArchiveFormat, WriteFormat>> = { zip: writeZip, tar: writeTar };

/**
 * One archive of files, written as it is read: memory holds one chunk, and for each file about 100 bytes and twice
 * its path. At most one file is open. A clean end means that every file that was listed is in it, whole; one that was
 * removed before it was opened is left out. Errors with those of the listing or of a file; `interrupted` and
 * `corrupt` if a file has fewer or more bytes than its storage reported, `too_large` above `maxFiles`, and
 * `unsupported` if a tar archive needs a size that the storage does not tell.
 */
export function archiveOf(
  files: AsyncIterable<ArchiveFile>,
  { format, prefix = "", maxFiles = 100_000, signal }: ArchiveOfOptions,
): ReadableStream<Uint8Array> {
  ensureFormat(format);
  if (prefix !== "" && !prefix.endsWith("/"))
    throw new TypeError('archive: a prefix ends with "/" or is empty');
  const controller = new AbortController();
  const listing = files[Symbol.asyncIterator]();
  const entries = readEntries(listing, { prefix, maxFiles, signal: controller.signal });
  const chunks = formats[format](entries);
  return createBody({
    next: async () => (await chunks.next()).value,
    release(reason) {
      controller.abort(reason);
      // the abort ends the current step; a listing ends when its page has come. Nothing waits for
      // them
      chunks.return(undefined).catch(() => {});
      listing.return?.().catch(() => {});
    },
    signal,
  });
}

/** Throws a `TypeError` unless it is an {@link ArchiveFormat}. */
export function ensureFormat(format: string): void {
  if (!Object.hasOwn(formats, format))
    throw new TypeError(`archive: format ${JSON.stringify(format)} is neither "zip" nor "tar"`);
}
