import type { Stats } from "node:fs";
import { link, lstat, mkdir, rename, stat, statfs, unlink } from "node:fs/promises";
import { basename, dirname, extname, join, resolve, sep } from "node:path";
import { SluiceError } from "@sluice/core";
import { createSharedRuns, localFileName } from "@sluice/core/internal";
import { openHandle } from "@sluice/core/internal/node";
import { diskError, diskOrigin } from "./disk-error.ts";
import { randomPartName } from "./part-name.ts";
import { isMine } from "./resume-record.ts";

/** Where a file is to appear. */
export interface SaveTarget {
  readonly directory: string;
  /** One path component. */
  readonly name: string;
  /** The caller gave a folder: if the name is taken, another one will do. */
  readonly mayRename: boolean;
  /** An existing file may be replaced. */
  readonly overwrite: boolean;
}

/**
 * Reads a path as a folder (it is one, or it ends with a separator, and is then created) or as the file itself. In a
 * folder the file gets `name`, made safe.
 *
 * Throws `already_exists` when the file may not take its one possible name. `overwrite` is for files: a device or a
 * pipe in `/dev` must stay one, even if this user may replace it.
 */
export async function resolveTarget(
  path: string,
  name: string,
  overwrite: boolean,
): Promise<SaveTarget> {
  const asFolder = namesFolder(path);
  const full = resolve(path);
  let info: Stats | undefined;
  try {
    if (asFolder) await mkdir(full, { recursive: true });
    info = await stat(full).catch(() => undefined);
  } catch (error) {
    throw diskError(`save to ${JSON.stringify(path)}`, error);
  }
  if (!asFolder && !info?.isDirectory()) {
    ensureFree(full, info, overwrite);
    return { directory: dirname(full), name: basename(full), mayRename: false, overwrite };
  }
  const target = { directory: full, name: localFileName(name), mayRename: true, overwrite };
  // a name that is taken is numbered, unless its file is to be replaced
  if (overwrite) {
    const wantedPath = join(full, target.name);
    ensureFree(wantedPath, await stat(wantedPath).catch(() => undefined), overwrite);
  }
  return target;
}

/** The folder and the name that {@link resolveTarget} would find, with nothing made or refused. */
export async function placeOf(
  path: string,
  name: string | undefined,
): Promise<Pick<SaveTarget, "directory" | "name">> {
  const full = resolve(path);
  const info = await stat(full).catch(() => undefined);
  return namesFolder(path) || info?.isDirectory()
    ? { directory: full, name: localFileName(name) }
    : { directory: dirname(full), name: basename(full) };
}

function namesFolder(path: string): boolean {
  return path.endsWith("/") || path.endsWith(sep);
}

function ensureFree(path: string, info: Stats | undefined, overwrite: boolean): void {
  if (info && overwrite && !info.isFile())
    throw new SluiceError(
      "already_exists",
      `client: save ${JSON.stringify(path)}: that is not a file; choose another name`,
      { origin: diskOrigin },
    );
  if (info && !overwrite) throw taken(path);
}

/**
 * Throws `no_space` when `bytes` more do not fit. Unknown file systems pass, and so do few bytes: their write fails as
 * soon.
 */
export async function ensureSpace(directory: string, bytes: number): Promise<void> {
  if (bytes <= fewBytes) return;
  const free = await freeBytes(directory);
  if (bytes > free)
    throw new SluiceError(
      "no_space",
      `client: save: ${bytes} bytes do not fit: ${free} are free, ${bytes - free} are missing; make room or save elsewhere`,
      { origin: diskOrigin },
    );
}

const fewBytes = 2 ** 20;

/** Between two looks at the disk a file may grow by this beyond the size that was told; as much stays free. */
export const spareBytes: number = 64 * 2 ** 20;

/** Throws `no_space` unless there is room for {@link spareBytes} more, with as many left. */
export async function ensureSpare(directory: string): Promise<void> {
  const free = await freeBytes(directory);
  if (free < 2 * spareBytes)
    throw new SluiceError(
      "no_space",
      `client: save: the file is larger than the server told, or without end, and ${free} bytes are free; make room or save elsewhere`,
      { origin: diskOrigin },
    );
}

/** What is free for this user; unknown file systems have room. */
async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory).catch(() => ({ bavail: Infinity, bsize: 1 }));
  return Math.max(0, bavail * bsize);
}

/**
 * Permissions of the file that a save makes: those of a replaced file of this user, otherwise those of a new file by
 * the umask and the folder's default ACL. The file system is asked with an empty file: `process.umask()` changes the
 * umask of every thread while it reads it.
 */
export async function permissionsOf({ directory, name, overwrite }: SaveTarget): Promise<number> {
  const replaced = overwrite
    ? await lstat(join(directory, name)).catch(() => undefined)
    : undefined;
  if (replaced && isMine(replaced)) return replaced.mode & 0o777;
  try {
    return await permissionsOfNewFile(directory);
  } catch (error) {
    throw diskError(`save to ${JSON.stringify(directory)}`, error);
  }
}

/** Saves that begin together in a folder share an empty file; none uses one that was made before it began. */
const permissionsOfNewFile = createSharedRuns(async (directory) => {
  const path = join(directory, randomPartName());
  const probe = await openHandle(path, "wx", 0o666);
  try {
    return (await probe.stat()).mode & 0o777;
  } finally {
    await probe.close();
    await unlink(path);
  }
});

/**
 * Gives a finished part file its final name and returns that. An existing file is never touched, however it came there,
 * unless `overwrite` says so; in a folder a numbered name is taken instead, up to ` (99)`. The new name is durable.
 */
export async function publishFile(
  part: string,
  { directory, name, mayRename, overwrite }: SaveTarget,
): Promise<string> {
  const wantedPath = join(directory, name);
  try {
    if (overwrite) {
      await rename(part, wantedPath);
      await syncDirectory(directory);
      return wantedPath;
    }
    for (const candidate of mayRename ? numbered(name) : [name]) {
      const path = join(directory, candidate);
      if (!(await claimName(part, path))) continue;
      await syncDirectory(directory);
      return path;
    }
  } catch (error) {
    throw diskError(`save ${JSON.stringify(wantedPath)}`, error);
  }
  throw taken(wantedPath);
}

/** Moves the part to a free name; false when the name is taken. */
async function claimName(part: string, path: string): Promise<boolean> {
  try {
    await link(part, path);
    await unlink(part);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return false;
    if (!linkless.has(code ?? "")) throw error;
  }
  // a file system without hard links: take the name with an empty file, then replace that
  try {
    await (await openHandle(path, "wx", 0o600)).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
  try {
    await rename(part, path);
  } catch (error) {
    await unlink(path);
    throw error;
  }
  return true;
}

const linkless: ReadonlySet<string> = new Set([
  "EPERM",
  "ENOTSUP",
  "EOPNOTSUPP",
  "ENOSYS",
  "EMLINK",
]);

function* numbered(name: string): Generator<string> {
  yield name;
  const { length } = extname(name);
  const extension = length <= 32 ? name.slice(name.length - length) : "";
  const stem = name.slice(0, name.length - extension.length);
  const characters = Array.from(new Intl.Segmenter("en").segment(stem), ({ segment }) => segment);
  for (let count = 1; count <= 99; count++) {
    const suffix = ` (${count})${extension}`;
    while (Buffer.byteLength(characters.join("") + suffix) > maxNameBytes) characters.pop();
    yield characters.join("") + suffix;
  }
}

/** The limit of file systems. */
const maxNameBytes = 255;

/** Files that get their names at the same time in a folder share a sync that begins after that. */
const syncDirectory = createSharedRuns(async (directory) => {
  // Windows opens no directories, and makes renames durable itself
  const handle = await openHandle(directory, "r").catch(() => undefined);
  await handle?.sync().catch(() => {});
  await handle?.close();
});

function taken(path: string): SluiceError {
  return new SluiceError(
    "already_exists",
    `client: save ${JSON.stringify(path)}: something is there; choose another name, or pass overwrite`,
    { origin: diskOrigin },
  );
}
