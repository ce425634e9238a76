import { SluiceError } from "@sluice/core";
import { discardSource, onAbort } from "@sluice/core/internal";
import type { OpenedObject } from "@sluice/storage";
import { quoteKey } from "@sluice/storage/plugin";
import { uniquePaths } from "../names/entry-paths.ts";

/** One file of a set. A set holds the files that the caller may list and stream, in listing order. */
export interface ArchiveFile {
  /** Legal key, below the prefix of the set. */
  readonly key: string;
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

/** Settings of {@link readEntries}. */
export interface EntryOptions {
  /** Left out of the paths. Every key begins with it. */
  readonly prefix: string;
  /** Maximum number of files; one more is `too_large`. */
  readonly maxFiles: number;
  /** Ends the listing, the file that is opened, and the body that is read. */
  readonly signal: AbortSignal;
}

/**
 * Opens one file after the other: a file is closed before the next one is asked for. Leaves out files that are gone by
 * now. Any other error of the listing or of a file is thrown.
 */
export async function* readEntries(
  files: AsyncIterator<ArchiveFile, unknown>,
  { prefix, maxFiles, signal }: EntryOptions,
): AsyncGenerator<ArchiveEntry, undefined> {
  const wait = createWait(signal);
  const pathOf = uniquePaths();
  let count = 0;
  for (;;) {
    const { done, value: file } = await wait(files.next());
    if (done) return;
    const opened = await openFile(file, signal, wait);
    if (opened === undefined) continue;
    const body = readBody(opened, wait);
    try {
      if (++count > maxFiles)
        throw new SluiceError(
          "too_large",
          `archive: more than ${maxFiles} files; ask for a smaller folder`,
        );
      const { size, lastModified } = opened.info;
      yield {
        path: pathOf(file.key.slice(prefix.length)),
        size,
        modified: lastModified,
        chunks: readChunks(file.key, size, body),
      };
    } finally {
      body.close();
    }
  }
}

/** Settles like the work, unless the signal aborts first: then it rejects with `signal.reason`. */
type Wait = <T>(work: Promise<T>) => Promise<T>;

/** For one wait at a time, with one listener for all of them: there are several waits for each file. */
function createWait(signal: AbortSignal): Wait {
  let giveUp: ((reason: unknown) => void) | undefined;
  onAbort(signal, (reason) => giveUp?.(reason));
  return (work) =>
    new Promise((resolve, reject) => {
      giveUp = reject;
      if (signal.aborted) reject(signal.reason);
      work.then(resolve, reject);
    });
}

async function openFile(
  file: ArchiveFile,
  signal: AbortSignal,
  wait: Wait,
): Promise<OpenedObject | undefined> {
  const opening = file.open({ signal });
  try {
    return await wait(opening);
  } catch (error) {
    if (SluiceError.is(error) && error.code === "not_found") return undefined;
    opening.then((late) => late && discardSource(late, error)).catch(() => {});
    throw error;
  }
}

interface FileBody {
  /** The next chunk, `undefined` at the end. */
  next(): Promise<Uint8Array | undefined>;
  close(): void;
}

function readBody(opened: OpenedObject, wait: Wait): FileBody {
  if (opened.bytes !== undefined) {
    // the storage shares its bytes, and the reader of the archive owns its chunks
    let unreadBytes: Uint8Array | undefined = opened.bytes.slice();
    return {
      async next() {
        const chunk = unreadBytes;
        unreadBytes = undefined;
        return chunk;
      },
      close() {},
    };
  }
  const reader = opened.body.getReader();
  return {
    next: async () => (await wait(reader.read())).value,
    close: () => void reader.cancel().catch(() => {}),
  };
}

async function* readChunks(
  key: string,
  size: number | undefined,
  body: FileBody,
): AsyncGenerator<Uint8Array, undefined> {
  let count = 0;
  for (;;) {
    const value = await body.next();
    if (value === undefined) break;
    count += value.byteLength;
    if (size !== undefined && count > size)
      throw new SluiceError(
        "corrupt",
        `archive: ${quoteKey(key)} has more than the ${size} bytes that its storage reported`,
      );
    yield value;
  }
  if (size !== undefined && count < size)
    throw new SluiceError(
      "interrupted",
      `archive: ${quoteKey(key)} ended after ${count} of ${size} bytes`,
    );
}
