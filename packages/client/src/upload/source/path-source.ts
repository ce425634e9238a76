import { constants, type BigIntStats } from "node:fs";
import { lstat, type FileHandle } from "node:fs/promises";
import { basename } from "node:path";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
import { diskOrigin } from "../../save/disk-error.ts";
import {
  chunkBytes,
  fileChanged,
  type FileSource,
  type OpenFile,
  type PickedPath,
} from "./file-source.ts";
import { typeOfName } from "./type-of-name.ts";

/**
 * A source over a file on disk. Only regular files: a symbolic link at the end of the path is refused
 * rather than followed, for it may lead to another file than the picked one. The file that is opened
 * must be the one that was looked at.
 */
export async function pathSource(file: PickedPath): Promise<FileSource> {
  const { path, name, mimeType, identity } = file;
  const called = name ?? basename(path);
  const picked = await lstat(path, { bigint: true }).catch((error) => {
    throw readFault(called, error);
  });
  ensureRegular(picked, called);
  if (identity && (identity.dev !== picked.dev || identity.ino !== picked.ino))
    throw fileChanged(called);
  return {
    name: called,
    size: Number(picked.size),
    mimeType: mimeType ?? typeOfName(called),
    isTypeGuessed: mimeType === undefined,
    open: () => openPicked(path, called, picked),
  };
}

async function openPicked(path: string, name: string, picked: BigIntStats): Promise<OpenFile> {
  // a file that became a pipe must not block the open
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await openHandle(path, flags).catch((error) => {
    throw readFault(name, error);
  });
  try {
    await ensureSame(handle, name, picked);
    return openFile(handle, name, picked);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function openFile(handle: FileHandle, name: string, picked: BigIntStats): OpenFile {
  // two in turn: one is read into while the other goes out
  const buffers: readonly [Buffer, Buffer] = [
    Buffer.allocUnsafe(chunkBytes),
    Buffer.allocUnsafe(chunkBytes),
  ];

  async function fill(buffer: Buffer, at: number, length: number): Promise<Buffer> {
    let filledBytes = 0;
    while (filledBytes < length) {
      const { bytesRead } = await handle.read(
        buffer,
        filledBytes,
        length - filledBytes,
        at + filledBytes,
      );
      if (bytesRead === 0) throw fileChanged(name);
      filledBytes += bytesRead;
    }
    return buffer.subarray(0, length);
  }

  /** The last bytes are given only of a file that is still the one whose first bytes were given. */
  async function readAt(at: number, end: number, buffer: Buffer): Promise<Buffer> {
    const chunk = await fill(buffer, at, Math.min(chunkBytes, end - at));
    if (at + chunk.length === Number(picked.size)) await ensureSame(handle, name, picked);
    return chunk;
  }

  async function* chunks(start: number, end: number): AsyncGenerator<Uint8Array> {
    let [buffer, other] = buffers;
    let coming: Promise<Buffer> | undefined;
    const begin = (at: number): void => {
      if (at >= end) return;
      [buffer, other] = [other, buffer];
      coming = readAt(at, end, buffer);
      // a failure before the await is not an unhandled rejection
      coming.catch(() => {});
    };
    begin(start);
    try {
      for (let at = start; at < end;) {
        const chunk = (await coming) as Buffer;
        at += chunk.length;
        begin(at);
        yield chunk;
      }
    } finally {
      // a read in progress would write into memory that another reader has by then
      await coming?.catch(() => {});
    }
  }

  return {
    size: Number(picked.size),
    chunks,
    ensureSame: () => ensureSame(handle, name, picked),
    close: () => handle.close(),
  };
}

async function ensureSame(handle: FileHandle, name: string, picked: BigIntStats): Promise<void> {
  const now = await handle.stat({ bigint: true });
  ensureRegular(now, name);
  if (
    now.ino !== picked.ino ||
    now.dev !== picked.dev ||
    now.size !== picked.size ||
    now.mtimeNs !== picked.mtimeNs ||
    now.ctimeNs !== picked.ctimeNs
  )
    throw fileChanged(name);
}

function ensureRegular(stats: BigIntStats, name: string): void {
  if (stats.isFile()) return;
  const what = stats.isSymbolicLink()
    ? "is a symbolic link; name the file that it leads to"
    : stats.isDirectory()
      ? "is a folder; name the files in it"
      : "is not a regular file";
  throw new SluiceError("invalid_argument", `client: ${JSON.stringify(name)} ${what}`);
}

/** A fault of reading the file of this name, as an error of ours. */
export function readFault(name: string, error: NodeJS.ErrnoException): SluiceError {
  const subject = `client: ${JSON.stringify(name)}`;
  const options = { cause: error, origin: diskOrigin };
  if (error.code === "ENOENT" || error.code === "ENOTDIR")
    return new SluiceError("not_found", `${subject}: there is no such file`, options);
  if (error.code === "EACCES" || error.code === "EPERM")
    return new SluiceError("permission_denied", `${subject} may not be read`, options);
  if (error.code === "ELOOP") return fileChanged(name, error);
  return new SluiceError("unavailable", `${subject} cannot be read (${error.code})`, options);
}
