import { lstat, realpath, unlink } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { definedMembers, localFileName } from "@sluice/core/internal";
import { holdFolder, type HeldFolder } from "@sluice/storage-fs/internal";
import { diskFault, namesOf } from "./paths.ts";

/** Where a file is to be saved. */
export interface SavePlace {
  /** Absolute, for people. */
  readonly path: string;
  /** Relative to the folder, with `/`. */
  readonly key: string;
  /** The same in the folder that is held open, for writing. */
  readonly held: string;
}

/** The folder that a user named for saving. */
export interface SaveFolder {
  /** Absolute, without links. */
  readonly root: string;
  /** The absolute path that `save` would write to, as far as no link is in the way. Throws `invalid_argument` as it does. */
  pathOf(path: string | undefined, ownName: string | undefined): string;
  /**
   * Has `write` make a new file. `path` is relative, and one that ends with `/` gets the file's own name; folders on the way
   * are made, and held while it writes. Rejects with `invalid_argument`, `already_exists`, or `untrusted` where a link is in
   * the way or another folder took the place meanwhile: no file is left then.
   */
  save<T>(
    path: string | undefined,
    ownName: string,
    write: (place: SavePlace) => Promise<T>,
  ): Promise<T>;
}

/** Opens a folder for saving. Rejects with `not_found` when there is none. */
export async function openSaveFolder(folder: string): Promise<SaveFolder> {
  const root = await realpath(folder).catch((error) => {
    throw diskFault(error, folder);
  });
  if (!(await lstat(root)).isDirectory())
    throw new SluiceError("invalid_argument", "bridge: the place to save to is not a folder");
  return {
    root,
    pathOf: (path, ownName) => join(root, ...placeNames(path, localFileName(ownName))),
    async save(path, ownName, write) {
      const names = placeNames(path, localFileName(ownName));
      const folders = names.slice(0, -1);
      const heldFolder = await holdFolder(root, folders, { make: true }).catch((error: unknown) => {
        throw folderFault(error);
      });
      const place = {
        path: join(root, ...names),
        key: names.join("/"),
        held: heldFolder.inside + (names.at(-1) as string),
      };
      try {
        if (await lstat(place.held).catch(() => undefined)) throw taken(place.key);
        return await writeHeld(heldFolder, place, write);
      } catch (error) {
        throw withPath(error, heldFolder.inside, join(root, ...folders));
      } finally {
        await heldFolder.close();
      }
    },
  };
}

function placeNames(path: string | undefined, own: string): readonly string[] {
  const whole = path === undefined || path === "" ? own : path;
  const names = namesOf(whole.endsWith("/") ? whole + own : whole);
  if (names[0] !== "spooled") return names;
  throw new SluiceError(
    "invalid_argument",
    "bridge: the folder spooled is for large results; pass another path",
  );
}

async function writeHeld<T>(
  held: HeldFolder,
  place: SavePlace,
  write: (place: SavePlace) => Promise<T>,
): Promise<T> {
  const startedMs = Date.now();
  const written = await write(place);
  if (await held.isInPlace()) return written;
  // where a folder cannot be named by its descriptor, another one may have a file of this name
  const info = await lstat(place.held).catch(() => undefined);
  if (info?.isFile() && info.ctimeMs >= startedMs - clockMs)
    await unlink(place.held).catch(() => {});
  throw new SluiceError(
    "untrusted",
    "bridge: a folder of that path was replaced; nothing was saved",
  );
}

/** Clocks of file systems are that coarse. */
const clockMs = 2_000;

function folderFault(error: unknown): unknown {
  if (SluiceError.is(error) && error.code === "permission_denied")
    return new SluiceError(
      "untrusted",
      "bridge: a part of that path is a link; pass another path",
      { cause: error },
    );
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "ENOTDIR") return diskFault(error);
  return new SluiceError(
    "untrusted",
    "bridge: a part of that path is not a folder; pass another path",
  );
}

/** The same error, with the path that people know in place of the one that names a descriptor. */
function withPath(error: unknown, inside: string, folder: string): unknown {
  const innerPath = inside.slice(0, -1);
  if (!SluiceError.is(error) || innerPath === folder || !error.message.includes(innerPath))
    return error;
  const { code, message, retryAfterMs, size, origin } = error;
  const options = definedMembers({ retryAfterMs, size, origin });
  return new SluiceError(code, message.replaceAll(innerPath, folder), { cause: error, ...options });
}

function taken(key: string): SluiceError {
  return new SluiceError(
    "already_exists",
    `bridge: ${JSON.stringify(key)} is there already; pass another path`,
  );
}
