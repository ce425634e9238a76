import { hash } from "node:crypto";
import { type BigIntStats, fstat, fstatSync, read } from "node:fs";
import { promisify } from "node:util";
import { type FileRegion, SluiceError } from "@sluice/core";
import type { ObjectInfo, OpenedObject } from "@sluice/storage";
import { createBody, quoteKey, withBody } from "@sluice/storage/plugin";
import { toSluiceError } from "../root/fs-error.ts";
import type { FsRoot } from "../root/root.ts";
import { closeFile, type OpenedFile } from "./open-file.ts";

const chunkBytes = 256 * 1024;
const readAsync = promisify(read);
const fstatAsync = promisify(fstat);

interface OpenedObjectOptions {
  readonly info: FileInfo;
  readonly range: { readonly start: number; readonly end: number } | undefined;
  /** Growth after opening is not a change. */
  readonly mayGrow: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * Gives an open file its two faces. They share one descriptor, which is closed exactly once.
 * A caller that asks `file` for the descriptor takes it over: an abort or a cancel of `body` does not
 * close it any more, because under a read it would become the number of another file.
 */
export function createOpenedObject(
  root: FsRoot,
  opened: OpenedFile,
  { info, range, mayGrow, signal }: OpenedObjectOptions,
): OpenedObject {
  const { fd, stats } = opened;
  const { start, end } = range ?? { start: 0, end: info.size };
  const operation = `fs: read ${quoteKey(info.key)}`;
  let reading: Promise<unknown> | undefined;
  let closed: Promise<void> | undefined;
  let isTaken = false;

  const ensureOpen = (): void => {
    if (closed !== undefined) throw new TypeError(`${operation}: the file was closed`);
  };

  const file: FileRegion = {
    get fd() {
      ensureOpen();
      isTaken = true;
      return fd;
    },
    start,
    end,
    path: opened.path,
    async verify() {
      ensureOpen();
      const now =
        stats.dev === root.localDevice
          ? fstatSync(fd, { bigint: true })
          : await fstatAsync(fd, { bigint: true }).catch((error: unknown) => {
              throw toSluiceError(error, operation);
            });
      if (!isSame(stats, now) && !(mayGrow && now.size >= stats.size))
        throw new SluiceError(
          "precondition_failed",
          `${operation}: the file changed during the read`,
        );
    },
    close() {
      // a number that is closed while a read waits may already name another file when it starts
      closed ??= reading?.then(() => closeFile(root, opened)) ?? closeFile(root, opened);
      return closed;
    },
  };

  const readChunk = async (position: number): Promise<Uint8Array> => {
    const chunk = new Uint8Array(
      Buffer.allocUnsafeSlow(Math.min(chunkBytes, end - position)).buffer,
    );
    for (let filled = 0; filled < chunk.byteLength;) {
      const { bytesRead } = await readAsync(
        fd,
        chunk,
        filled,
        chunk.byteLength - filled,
        position + filled,
      ).catch((error: unknown) => {
        throw new SluiceError("interrupted", `${operation}: stopped at byte ${position + filled}`, {
          cause: error,
        });
      });
      if (bytesRead === 0)
        throw new SluiceError(
          "precondition_failed",
          `${operation}: the file was truncated during the read`,
        );
      filled += bytesRead;
    }
    return chunk;
  };

  // #region body
  const createFileBody = (): ReadableStream<Uint8Array> => {
    let position = start;
    return createBody({
      async next() {
        ensureOpen();
        if (position === end && start < end) return undefined;
        const chunk = readChunk(position);
        reading = chunk.catch(() => {});
        const bytes = await chunk;
        position += bytes.byteLength;
        if (position === end) await file.verify();
        return position === start ? undefined : bytes;
      },
      async release() {
        if (!isTaken) await file.close();
      },
      signal,
    });
  };
  // #endregion

  return withBody({ info, range, file }, createFileBody);
}

/** Size and modification time only: replacing a file by rename moves the change time of the old one. */
function isSame(before: BigIntStats, now: BigIntStats): boolean {
  return before.size === now.size && before.mtimeNs === now.mtimeNs;
}

/** What {@link toObjectInfo} gives: a file always has a size. */
export type FileInfo = ObjectInfo & { readonly size: number };

/**
 * The metadata of a file. The etag is a hash over inode, size and both times in nanoseconds: the
 * change time moves where `cp -p` sets the other back, and hashed it gives away no inode. The
 * device is not in it, because its number differs between machines and mounts of one file system.
 *
 * While the file is younger than `racyMs` there is no etag: another change within one tick of the
 * file system's clock could not be told apart. `describe` waits for that tick to end.
 */
export function toObjectInfo(key: string, stats: BigIntStats, racyMs: number): FileInfo {
  const size = Number(stats.size);
  if (!Number.isSafeInteger(size))
    throw new SluiceError("too_large", `fs: the object is larger than 2^53 - 1 bytes`);
  const lastModified = new Date(Number(stats.mtimeMs));
  if (racyFor(stats, racyMs) > 0) return { key, size, lastModified };
  return { key, size, lastModified, etag: toEtag(stats) };
}

// #region etag
function toEtag({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return hash("sha256", `${ino}:${size}:${mtimeNs}:${ctimeNs}`, "base64url").slice(0, 27);
}

/** Milliseconds until no further change can have the times of the file; 0 when none can now. */
export function racyFor({ mtimeMs, ctimeMs }: BigIntStats, racyMs: number): number {
  const now = Date.now();
  const waits = [mtimeMs, ctimeMs].map((time) => {
    const ahead = Number(time) - now;
    // a time in the far future was set by hand: the next write does not repeat it
    return Math.abs(ahead) < racyMs ? racyMs + ahead : 0;
  });
  return Math.max(...waits);
}
// #endregion
