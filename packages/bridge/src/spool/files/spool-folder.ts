import { randomBytes } from "node:crypto";
import { link, lstat, mkdir, readdir, realpath, rename, unlink } from "node:fs/promises";
import { type Stats, constants } from "node:fs";
import { join } from "node:path";
import { writerOfPart, randomPartName } from "@sluice/client/internal";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { createSha256 } from "@sluice/core/internal";
import { openHandle } from "@sluice/core/internal/node";
import { createMemoryReservations, createRoom, type SharedRoom, type Reservation } from "./room.ts";
import type { SpoolPart, SpoolTarget } from "../spooled-string.ts";

/** Options of {@link openSpoolFolder}. */
export interface SpoolFolderOptions {
  /** A folder that the user named. It must exist. Files go to `spooled` in it, which is made. */
  readonly folder: string;
  /** Maximum bytes of all spooled files. A string that has no room fails with `no_space`. */
  readonly maxBytes: number;
  /** Spooled files that are older are removed, by `clean` and before others are written. */
  readonly maxAgeMs: number;
}

/** A file that this process or an earlier one has spooled. */
export interface SpooledFile {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  /** When it was written, in milliseconds since 1970. */
  readonly modifiedMs: number;
}

/** A folder in which long strings become files. */
export interface SpoolFolder extends SpoolTarget {
  /** Absolute path of the folder that holds the files, without links. */
  readonly path: string;
  /** Begins a file. Rejects with `no_space`, `permission_denied`, or `untrusted` when the folder was replaced. */
  create(): Promise<SpoolPart>;
  /** Whole files, the oldest first. */
  list(): Promise<SpooledFile[]>;
  /** Bytes of whole files, and of those that processes of other machines write or left, which reserve nothing here. */
  bytes(): Promise<number>;
  remove(path: string): Promise<void>;
  /** Removes files that are too old, and what processes left that ended while they wrote. */
  clean(): Promise<void>;
  /** Removes files that are being written. Whole ones stay. */
  close(): Promise<void>;
}

/** Opens the folder and cleans it. Rejects with `not_found`, `permission_denied`, or `untrusted` where a link is in its place. */
export async function openSpoolFolder(options: SpoolFolderOptions): Promise<SpoolFolder> {
  const { folder, maxBytes, maxAgeMs } = options;
  const room = createRoom({
    maxBytes,
    records: createMemoryReservations(),
    wholeBytes: () => opened.bytes(),
    fault: () => fullFault(opened.path, maxBytes),
  });
  const opened = await openSharedSpool(folder, maxAgeMs, room);
  return opened;
}

/** The same where other files have a part of the room. */
export async function openSharedSpool(
  folder: string,
  maxAgeMs: number,
  room: SharedRoom,
): Promise<SpoolFolder> {
  const path = await ownFolder(folder);
  const identity = await identityOf(path);
  const parts = new Set<SpoolPart>();
  let cleanedAt = -Infinity;
  let isClosed = false;

  async function filesNow(isCounted: (name: string) => boolean): Promise<SpooledFile[]> {
    const files: SpooledFile[] = [];
    for (const name of await readdir(path).catch(() => [])) {
      if (!isCounted(name)) continue;
      const info = await lstat(join(path, name)).catch(() => undefined);
      if (!info || !isMine(info)) continue;
      files.push({ name, path: join(path, name), bytes: info.size, modifiedMs: info.mtimeMs });
    }
    return files.toSorted((a, b) => a.modifiedMs - b.modifiedMs);
  }

  async function clean(): Promise<void> {
    cleanedAt = performance.now();
    await cleanParts(path);
    for (const file of await filesNow(isWhole))
      if (Date.now() - file.modifiedMs > maxAgeMs) await unlink(file.path).catch(() => {});
  }

  async function ensureInPlace(): Promise<void> {
    if (isClosed) throw new SluiceError("unavailable", "bridge: spool: the folder is closed");
    if ((await identityOf(path).catch(() => undefined)) === identity) return;
    throw new SluiceError(
      "untrusted",
      `bridge: spool: ${JSON.stringify(path)} was replaced or deleted; start the bridge again`,
    );
  }

  await clean();
  return {
    path,
    async create() {
      await ensureInPlace();
      if (performance.now() - cleanedAt > cleanEveryMs) await clean();
      const reservation = await room.reserve();
      const part = await createPart(path, {
        reservation,
        ended: () => parts.delete(part),
        publish: (from, name) => publish(path, from, name),
      });
      parts.add(part);
      return part;
    },
    list: () => filesNow(isWhole),
    async bytes() {
      const files = await filesNow((name) => isWhole(name) || writerOfPart(name) === "elsewhere");
      return files.reduce((sum, { bytes }) => sum + bytes, 0);
    },
    remove: (file) => unlink(file).catch(() => {}),
    clean,
    async close() {
      isClosed = true;
      await Promise.all([...parts].map((part) => part.discard()));
    },
  };
}

/** `name-8 digits.extension`: only such files are listed, counted and removed. */
const wholeName = /-[0-9a-f]{8}\.[^./\\]{1,32}$/;
const isWhole = (name: string): boolean => wholeName.test(name);
const partName = /^\.[0-9a-f]{32}\.part$/;
const cleanEveryMs = 60_000;
/** A file that is written gets bytes all the time; after this it has no writer, on whatever machine. */
const abandonedMs = 3_600_000;

async function ownFolder(folder: string): Promise<string> {
  try {
    const path = join(await realpath(folder), "spooled");
    await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
    return path;
  } catch (error) {
    throw folderFault(error);
  }
}

/** Device and inode of the folder. Rejects with `untrusted` for what is not a folder of this user. */
async function identityOf(path: string): Promise<string> {
  const info = await lstat(path);
  const isOwn = info.uid === (process.getuid?.() ?? info.uid);
  if (info.isDirectory() && isOwn) return `${info.dev}:${info.ino}`;
  throw new SluiceError(
    "untrusted",
    `bridge: spool: ${JSON.stringify(path)} is not a folder of this user; remove it, or name another folder`,
  );
}

function isMine(info: Stats): boolean {
  return info.isFile() && info.uid === (process.getuid?.() ?? info.uid);
}

/** Removes files that no process writes any more. */
async function cleanParts(path: string): Promise<void> {
  for (const name of await readdir(path).catch(() => [])) {
    if (!partName.test(name)) continue;
    const info = await lstat(join(path, name)).catch(() => undefined);
    if (!info || !isMine(info)) continue;
    const isAbandoned = writerOfPart(name) === "ended" || Date.now() - info.mtimeMs > abandonedMs;
    if (isAbandoned) await unlink(join(path, name)).catch(() => {});
  }
}

function fullFault(path: string, maxBytes: number): SluiceError {
  return new SluiceError(
    "no_space",
    `bridge: spool: the files in ${JSON.stringify(path)} may have ${maxBytes} bytes together; delete some or raise that limit`,
  );
}

/** Gives a file its name, with digits that make it the only one. */
async function publish(folder: string, from: string, name: string): Promise<string> {
  const dot = name.lastIndexOf(".");
  for (;;) {
    const unique = `${name.slice(0, dot)}-${randomBytes(4).toString("hex")}${name.slice(dot)}`;
    const path = join(folder, unique);
    try {
      await link(from, path);
      await unlink(from);
      return path;
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (code === "EEXIST") continue;
      if (!linkless.has(code)) throw folderFault(error);
    }
    if (await moveTo(path, from)) return path;
  }
}

/** What file systems without hard links say. */
const linkless: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Without hard links an empty file takes the name: rename alone would replace what has it. False when it is taken. */
async function moveTo(path: string, from: string): Promise<boolean> {
  try {
    await (await openHandle(path, "wx", 0o600)).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw folderFault(error);
  }
  try {
    await rename(from, path);
    return true;
  } catch (error) {
    await unlink(path).catch(() => {});
    throw folderFault(error);
  }
}

interface PartOwner {
  /** Has room for bytes before they are written. */
  readonly reservation: Reservation;
  ended(): void;
  publish(from: string, name: string): Promise<string>;
}

const readBytes = 65_536;

/** Creates a file that did not exist; no link is followed. Only this user reads it. */
async function createPart(folder: string, owner: PartOwner): Promise<SpoolPart> {
  const { reservation } = owner;
  let path = join(folder, randomPartName());
  const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants;
  const handle = await openHandle(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, 0o600).catch(
    async (error) => {
      await reservation.release();
      throw folderFault(error);
    },
  );
  const hash = createSha256();
  let bytes = 0;
  let isDiscarded = false;

  return {
    get bytes() {
      return bytes;
    },
    async write(chunk) {
      await reservation.growAhead(bytes + chunk.length);
      bytes += chunk.length;
      hash.update(chunk);
      let written = 0;
      while (written < chunk.length)
        written += await handle
          .write(chunk, written)
          .then(({ bytesWritten }) => bytesWritten)
          .catch((error) => {
            throw folderFault(error);
          });
    },
    async *reread() {
      for (let at = 0; at < bytes;) {
        const buffer = new Uint8Array(readBytes);
        const { bytesRead } = await handle.read(buffer, 0, readBytes, at);
        if (bytesRead === 0) return;
        yield buffer.subarray(0, bytesRead);
        at += bytesRead;
      }
    },
    async seal() {
      await handle.close();
      return hash.digest();
    },
    async publish(name) {
      path = await owner.publish(path, name);
      await reservation.release();
      owner.ended();
      return path;
    },
    async discard() {
      if (isDiscarded) return;
      isDiscarded = true;
      owner.ended();
      await handle.close();
      await unlink(path).catch(() => {});
      await reservation.release();
    },
  };
}

/** A fault of the file system, as an error that says what to do. Anything else passes unchanged. */
function folderFault(error: unknown): unknown {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || SluiceError.is(error)) return error;
  const [ours, hint] = rows[code] ?? ["internal", `the file system failed (${code})`];
  return new SluiceError(ours, `bridge: spool: ${hint}`, { cause: error });
}

type FolderFault = readonly [SluiceErrorCode, string];

const denied: FolderFault = [
  "permission_denied",
  "writing is not permitted there; name another folder",
];
const full: FolderFault = ["no_space", "the disk is full; make room or name another folder"];

const rows: Readonly<Record<string, FolderFault>> = {
  ENOENT: ["not_found", "there is no such folder; create it first"],
  ENOTDIR: ["invalid_argument", "a part of the path is a file; name a folder"],
  EACCES: denied,
  EPERM: denied,
  EROFS: denied,
  ENOSPC: full,
  EDQUOT: full,
  EMFILE: ["unavailable", "too many open files; close some, or raise the limit (ulimit -n)"],
};
