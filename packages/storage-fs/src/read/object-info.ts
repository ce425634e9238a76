import { hash } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";

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
