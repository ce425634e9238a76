import { type BigIntStats, fstatSync, lstatSync, read } from "node:fs";
import { promisify } from "node:util";
import type { FileInfo } from "./opened-object.ts";
import type { OpenedFile } from "./open-file.ts";
import { type FsRoot, pathOf } from "../root/root.ts";

const maxFileBytes = 64 * 1024;
const maxBytes = 8 * 1024 * 1024;
// an entry costs about as much beside its bytes
const entryBytes = 1024;
const maxSeen = 4096;
/** Looking at a name follows links on the way: how long it goes without a proof of where it leads. */
const provenMs = 1_000;

/** A small file as it was when it was read. */
export interface SmallFile {
  readonly info: FileInfo;
  readonly bytes: Uint8Array;
  readonly stats: BigIntStats;
  /** When `openFile` last proved that it lies inside the root, by `performance.now()`. */
  provenAt: number;
}

/**
 * Small files that are asked for again and again, at most 8 MiB of them. Opening a file and
 * reading it are two trips to the thread pool, which cost several times what sending it does.
 */
interface SmallFiles {
  /**
   * The kept object of a key, if the name still leads to exactly that version of that file, and the
   * file was given to `keep` within the last second.
   */
  readonly find: (key: string) => SmallFile | undefined;
  /**
   * Keeps a file that was just opened under this key, when it is small, was asked for before and
   * is on a disk where looking is quick.
   */
  keep(file: OpenedFile, info: FileInfo): Promise<SmallFile | undefined>;
}

/** Makes the memory of one backend. */
export function createSmallFiles(root: FsRoot): SmallFiles {
  // in the order of their last use
  const files = new Map<string, SmallFile>();
  const versions = new Set<string>();
  let keptBytes = 0;

  function drop(key: string, { bytes }: SmallFile): void {
    files.delete(key);
    keptBytes -= bytes.byteLength + entryBytes;
  }

  function add(key: string, file: SmallFile): void {
    const old = files.get(key);
    if (old) drop(key, old);
    files.set(key, file);
    keptBytes += file.bytes.byteLength + entryBytes;
    for (const [oldest, its] of files) {
      if (keptBytes <= maxBytes) break;
      drop(oldest, its);
    }
  }

  /** True from the second time on, so that a walk over the folder leaves nothing behind. */
  function wasSeen(version: string): boolean {
    if (versions.delete(version)) return true;
    if (versions.size >= maxSeen) versions.clear();
    versions.add(version);
    return false;
  }

  return {
    find(key) {
      const file = files.get(key);
      if (!file || performance.now() - file.provenAt >= provenMs) return undefined;
      if (!isSame(file.stats, look(pathOf(root, key)))) {
        drop(key, file);
        return undefined;
      }
      files.delete(key);
      files.set(key, file);
      return file;
    },

    async keep({ fd, stats, path }, info) {
      const { key, size, etag } = info;
      // looking at a name later does not follow the link of a mounted volume
      if (path !== pathOf(root, key)) return undefined;
      const provenAt = performance.now();
      const current = files.get(key);
      if (current && isSame(current.stats, stats)) {
        current.provenAt = provenAt;
        return current;
      }
      if (etag === undefined || size === 0 || size > maxFileBytes) return undefined;
      if (stats.dev !== root.localDevice || !wasSeen(`${etag} ${key}`)) return undefined;
      const bytes = Buffer.allocUnsafeSlow(size);
      const { bytesRead } = await readAsync(fd, bytes, 0, size, 0);
      if (bytesRead < size || !isSame(stats, fstatSync(fd, { bigint: true }))) return undefined;
      const file = { info, bytes, stats, provenAt };
      add(key, file);
      return file;
    },
  };
}

const readAsync = promisify(read);

/** Without following a link at the end, as files are opened. */
function look(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/**
 * The change time moves with every write, rename and new link and cannot be set: equal means
 * that it is the file which was proven to lie inside the root, as it was then. A file whose times
 * are too young to tell versions apart has no etag and is never kept.
 */
function isSame(before: BigIntStats, now: BigIntStats | undefined): boolean {
  return (
    now !== undefined &&
    before.ino === now.ino &&
    before.dev === now.dev &&
    before.ctimeNs === now.ctimeNs &&
    before.mtimeNs === now.mtimeNs &&
    before.size === now.size
  );
}
