import { realpath, type FileHandle, lstat, opendir, readlink } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { constants } from "node:fs";
import { SluiceError } from "@sluice/core";
import { foldName, isPlainPath } from "@sluice/core/internal";
import { openHandle } from "@sluice/core/internal/node";
import { holdFolder } from "@sluice/storage-fs/internal";
import { diskFault, namesOfOwn } from "./paths.ts";

/** A file that may be sent. */
export interface SendableFile {
  /** Absolute, without links. */
  readonly path: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** The file that was looked at: no other one may be sent, wherever the path leads by then. */
  readonly identity: FileIdentity;
}

/** The folders that a user named for sending. */
export interface SendFolders {
  /** Absolute, without links. */
  readonly roots: readonly string[];
  /**
   * Finds a file: `path` is relative to one of the folders, or absolute below one. A name is also found if one file alone
   * looks the same, such as one with another kind of space. Rejects with `not_found`,
   * `permission_denied` outside of them, or `untrusted` where a part of the path is a link.
   */
  find(path: string): Promise<SendableFile>;
}

/** Opens folders for sending. Rejects with `not_found` when one is not there. */
export async function openSendFolders(folders: readonly string[]): Promise<SendFolders> {
  const roots = await Promise.all(
    folders.map((folder) =>
      realpath(folder).catch((error) => {
        throw diskFault(error, folder);
      }),
    ),
  );
  return {
    roots,
    async find(path) {
      const places = isAbsolute(path)
        ? belowRoots(path, folders, roots)
        : roots.map((root) => ({ root, names: namesOfOwn(path) }));
      for (const place of places) {
        const sendableFile = await sendable(place);
        if (sendableFile) return sendableFile;
      }
      if (places.length > 0) throw new SluiceError("not_found", "bridge: there is no such file");
      throw new SluiceError(
        "permission_denied",
        `bridge: files are sent from below ${roots.join(" and ")} only; put the file there`,
      );
    },
  };
}

/** A path below one of the folders. */
interface SendPlace {
  readonly root: string;
  readonly names: readonly string[];
}

/** An absolute path, as it lies below folders as they were named or as they are. */
function belowRoots(
  path: string,
  folders: readonly string[],
  roots: readonly string[],
): SendPlace[] {
  const places: SendPlace[] = [];
  for (const [at, root] of roots.entries()) {
    const inside = [root, folders[at] as string]
      .map((folder) => relative(folder, path))
      .find(
        (rest) => rest !== "" && rest !== ".." && !rest.startsWith(`..${sep}`) && !isAbsolute(rest),
      );
    if (inside !== undefined) places.push({ root, names: namesOfOwn(inside.split(sep).join("/")) });
  }
  return places;
}

async function sendable({ root, names }: SendPlace): Promise<SendableFile | undefined> {
  const opened = await openStepwise(root, names).catch((error: NodeJS.ErrnoException) => {
    if (isMissing(error)) return undefined;
    throw diskFault(error);
  });
  if (!opened) return undefined;
  const { handle, path } = opened;
  try {
    const info = await handle.stat({ bigint: true });
    if (!info.isFile())
      throw new SluiceError("invalid_argument", "bridge: that is not a file; pass the path of one");
    return {
      path,
      name: basename(path),
      size: Number(info.size),
      identity: { dev: info.dev, ino: info.ino },
    };
  } finally {
    await handle.close();
  }
}

function isMissing({ code }: NodeJS.ErrnoException): boolean {
  return code === "ENOENT" || code === "ENOTDIR";
}

interface FileToSend {
  readonly handle: FileHandle;
  readonly path: string;
}

/** Opens each folder before it looks for a name in it, so that no answer tells what lies behind a link. */
async function openStepwise(root: string, names: readonly string[]): Promise<FileToSend> {
  const path = join(root, ...names);
  const folder = await holdFolder(root, names.slice(0, -1), { make: false }).catch((error) => {
    throw SluiceError.is(error) && error.code === "permission_denied" ? linkedFault() : error;
  });
  try {
    return { handle: await openInPlace(path), path };
  } catch (error) {
    const similar = isMissing(error as NodeJS.ErrnoException)
      ? await findSimilar(folder.inside, basename(path))
      : undefined;
    if (similar === undefined) throw error;
    const similarPath = join(dirname(path), similar);
    return { handle: await openInPlace(similarPath), path: similarPath };
  } finally {
    await folder.close();
  }
}

/** The one name in a folder that looks the same; `undefined` if there are none or several. */
async function findSimilar(folder: string, name: string): Promise<string | undefined> {
  const similar: string[] = [];
  for await (const entry of await opendir(folder))
    if (foldName(entry.name) === foldName(name)) similar.push(entry.name);
  const [only, another] = similar;
  if (only === undefined || another !== undefined) return undefined;
  // another sign may look like the dot of a hidden name
  return isPlainPath(only) ? only : undefined;
}

/** The bytes of the file that was looked at; undefined when it is another one now. */
export async function readSendable(file: SendableFile): Promise<Uint8Array | undefined> {
  const { path, size, identity } = file;
  const handle = await openInPlace(path).catch(() => undefined);
  try {
    const info = await handle?.stat({ bigint: true });
    if (!handle || info?.dev !== identity.dev || info.ino !== identity.ino) return undefined;
    // one byte more shows that it has grown
    const bytes = Buffer.allocUnsafe(size + 1);
    let length = 0;
    for (let isEnd = false; !isEnd && length <= size;) {
      const { bytesRead } = await handle.read(bytes, length, bytes.length - length);
      length += bytesRead;
      isEnd = bytesRead === 0;
    }
    return length === size ? bytes.subarray(0, size) : undefined;
  } finally {
    await handle?.close();
  }
}

/** What a file is, whatever its name: device and inode. */
interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/**
 * Opens what lies at `path` for reading, where no part of `path` is a link. It is checked after the open, so a folder
 * that becomes a link in between leads nowhere. Rejects with `untrusted`, or with the fault of the file system.
 */
async function openInPlace(path: string): Promise<FileHandle> {
  // a pipe must not make the open wait
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await openHandle(path, flags).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "ELOOP" || error.code === "EMLINK" ? linkedFault() : error;
  });
  try {
    await ensureInPlace(handle, path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Throws `untrusted` unless `handle` is what lies at `path`, without a link on the way. */
export async function ensureInPlace(handle: FileHandle, path: string): Promise<void> {
  // Linux says where an open file lies
  const place =
    process.platform === "linux"
      ? await readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined)
      : undefined;
  if ((place ?? (await realpath(path))) !== path) throw linkedFault();
  const [opened, named] = await Promise.all([
    handle.stat({ bigint: true }),
    lstat(path, { bigint: true }),
  ]);
  if (opened.dev !== named.dev || opened.ino !== named.ino) throw linkedFault();
}

function linkedFault(): SluiceError {
  return new SluiceError(
    "untrusted",
    "bridge: a part of that path is a link; pass the file itself",
  );
}
