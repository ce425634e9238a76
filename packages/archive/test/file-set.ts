import type { OpenedObject } from "@sluice/storage";
import { createMemoryBackend, type MemoryContent } from "@sluice/storage";
import type { ArchiveFile } from "../src/index.ts";

/** Events of a set of files. */
export interface FileSet {
  readonly files: AsyncIterable<ArchiveFile>;
  /** Files that are open now. */
  open: number;
  /** Maximum files that were open at a time. */
  mostOpen: number;
  /** Files that were listed so far. */
  listed: number;
  /** Bytes that were read so far. */
  read: number;
  /** The listing has ended: at its end, with an error, or because its reader ended it. */
  isOver: boolean;
}

/** The contents of a set: by key, or a function that makes the results of `open`. */
export type FileContent =
  | MemoryContent
  | ((options: { signal?: AbortSignal }) => Promise<OpenedObject | undefined>);

/** Files of a memory backend, listed in the order of their keys, with a count of everything that is open. */
export function createFileSet(
  contents: Readonly<Record<string, FileContent>> | Iterable<readonly [string, FileContent]>,
  beforeFile: (index: number) => void | Promise<void> = () => {},
): FileSet {
  const entries = Symbol.iterator in contents ? contents : Object.entries(contents);
  async function* list(): AsyncGenerator<ArchiveFile, void> {
    try {
      let index = 0;
      for (const [key, content] of entries) {
        await beforeFile(index++);
        set.listed++;
        yield { key, open: (options) => openCounted(key, content, options) };
      }
      await beforeFile(index);
    } finally {
      set.isOver = true;
    }
  }
  const openCounted = async (
    key: string,
    content: FileContent,
    options: { signal?: AbortSignal },
  ): Promise<OpenedObject | undefined> => {
    const opened =
      typeof content === "function"
        ? await content(options)
        : await createMemoryBackend({ [key]: content }).open(key, options);
    if (opened === undefined) return undefined;
    set.mostOpen = Math.max(set.mostOpen, ++set.open);
    const reader = opened.body.getReader();
    let isClosed = false;
    const close = (): void => {
      if (!isClosed) set.open--;
      isClosed = true;
    };
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const { done, value } = await reader.read();
            if (done) {
              close();
              return controller.close();
            }
            set.read += value.byteLength;
            controller.enqueue(value);
          } catch (error) {
            close();
            throw error;
          }
        },
        async cancel(reason) {
          close();
          await reader.cancel(reason);
        },
      },
      { highWaterMark: 0 },
    );
    return { info: opened.info, body };
  };
  const set: FileSet = { files: list(), open: 0, mostOpen: 0, listed: 0, read: 0, isOver: false };
  return set;
}

/** What `open` gives: an object that tells `size` and has the chunks. */
export function openedOf(
  key: string,
  size: number | undefined,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): OpenedObject {
  return {
    info: { key, ...(size === undefined ? {} : { size }) },
    body: ReadableStream.from(chunks),
  };
}

/** Zeros, made when they are read. */
export function zeros(size: number): MemoryContent {
  return { size, read: (start, end) => new Uint8Array(end - start) };
}

/** All of a stream. */
export async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream as never).arrayBuffer());
}
