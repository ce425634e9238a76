import { SluiceError } from "@sluice/core";
import type { ReadableFile } from "../../net/outgoing-body.ts";

/** A picked file, not opened yet. */
export interface FileSource {
  /** As told to the server. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** The type is what the name suggests: a source file may be called like a film, so no server is asked to hold to it. */
  readonly isTypeGuessed: boolean;
  /** Opens it; rejects with `precondition_failed` if it is no longer the picked file. */
  open(): Promise<OpenFile>;
}

/** An open file of a fixed size. Close it. */
export interface OpenFile extends ReadableFile {
  readonly size: number;
  /** Throws `precondition_failed` unless it is as it was when it was opened. */
  ensureSame(): Promise<void>;
  close(): Promise<void>;
}

/** A file of a browser, or bytes with a name. */
export interface NamedBlob {
  readonly blob: Blob;
  readonly name: string;
  /** Media type; that of the blob, or what the name suggests, when absent. */
  readonly mimeType?: string;
}

/** A file by its path. Needs Node or Bun; elsewhere it is rejected as `unsupported`. */
export interface PickedPath {
  readonly path: string;
  /** The name for the server instead of the last part of the path. */
  readonly name?: string;
  /** Media type; what the name suggests when absent. */
  readonly mimeType?: string;
  /**
   * Device and inode that the file must have (`fstat` with `bigint`). Default: those that it has at first. With them, a
   * folder on the way that became a link leads nowhere.
   */
  readonly identity?: { readonly dev: bigint; readonly ino: bigint };
}

/** A file to send, however the program has it: a string is a path. */
export type PickedFile = string | PickedPath | File | NamedBlob;

/** A source over a blob. Runtimes refuse to read a `File` that changed since it was picked. */
export function blobSource(
  blob: Blob,
  { name, mimeType, isTypeGuessed }: Pick<FileSource, "name" | "mimeType" | "isTypeGuessed">,
): FileSource {
  async function* chunks(start: number, end: number): AsyncGenerator<Uint8Array> {
    for (let at = start; at < end; at += chunkBytes)
      yield await read(blob.slice(at, Math.min(at + chunkBytes, end)), name);
  }
  return {
    name,
    size: blob.size,
    mimeType,
    isTypeGuessed,
    open: async () => ({
      size: blob.size,
      chunks,
      blob: (start, end) => blob.slice(start, end),
      // a read fails by itself, and a platform that reads the blob only reports a lost connection
      ensureSame: async () => void (await read(blob.slice(0, 1), name)),
      async close() {},
    }),
  };
}

/** Bytes that are read at once. */
export const chunkBytes: number = 2 ** 18;

async function read(part: Blob, name: string): Promise<Uint8Array> {
  try {
    return new Uint8Array(await part.arrayBuffer());
  } catch (error) {
    throw fileChanged(name, error);
  }
}

/** The error for a file that is not what it was when it was picked. */
export function fileChanged(name: string, cause?: unknown): SluiceError {
  return new SluiceError(
    "precondition_failed",
    `client: ${JSON.stringify(name)} changed while it was sent; send it again`,
    { cause },
  );
}
