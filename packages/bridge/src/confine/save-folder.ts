import { lstat, mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { localFileName, SluiceError } from "@sluice/core";
import { createFsBackend } from "@sluice/storage-fs";
import { diskFault } from "./disk-fault.ts";
import { namesOf } from "./plain-path.ts";

/** Where a file is to be saved. */
interface SavePlace {
  /** Absolute. */
  readonly path: string;
  /** Relative to the folder, with `/`. */
  readonly key: string;
}

/** The folder that a user named for saving. */
export interface SaveFolder {
  /** Absolute, without links. */
  readonly root: string;
  /**
   * Place for a file, whose folders are made. `path` is relative; one that ends with `/` gets the file's own name.
   * Rejects with `invalid_argument`, `already_exists`, or `untrusted` where a link is in the way.
   */
  place(path: string | undefined, ownName: string): Promise<SavePlace>;
  /** Copies bytes to a new file there. It appears whole or not at all. */
  write(place: SavePlace, source: AsyncIterable<Uint8Array>, options: WriteTerms): Promise<void>;
}

/** What a copy has to keep to. */
interface WriteTerms {
  readonly size: number;
  readonly signal: AbortSignal;
}

/** Opens a folder for saving. Rejects with `not_found` when there is none. */
export async function openSaveFolder(folder: string): Promise<SaveFolder> {
  const root = await realpath(folder).catch((error) => {
    throw diskFault(error, folder);
  });
  if (!(await lstat(root)).isDirectory())
    throw new SluiceError("invalid_argument", "bridge: the place to save to is no folder");
  const backend = createFsBackend({ root, writable: true });
  return {
    root,
    async place(path, ownName) {
      const own = localFileName(ownName);
      const whole = path === undefined || path === "" ? own : path;
      const names = namesOf(whole.endsWith("/") ? whole + own : whole);
      await makeFolders(root, names.slice(0, -1));
      const key = names.join("/");
      const place = { path: join(root, ...names), key };
      if (await lstat(place.path).catch(() => undefined)) throw taken(key);
      return place;
    },
    async write({ key }, source, { size, signal }) {
      try {
        await using writer = await backend.write!(key, { ifAbsent: true, size, signal });
        for await (const chunk of source) await writer.write(chunk);
        await writer.commit();
      } catch (error) {
        if (SluiceError.is(error) && error.code === "precondition_failed") throw taken(key);
        throw error;
      }
    },
  };
}

/** Makes each folder on the way. A link in its place is refused, wherever it leads. */
async function makeFolders(root: string, names: readonly string[]): Promise<void> {
  let path = root;
  for (const name of names) {
    path = join(path, name);
    await mkdir(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw diskFault(error);
    });
    if (!(await lstat(path)).isDirectory())
      throw new SluiceError("untrusted", `bridge: ${name} is no folder; pass another path`);
  }
  await ensureInPlace(path);
}

/** Throws `untrusted` when a part of the way to `path` is a link. */
async function ensureInPlace(path: string): Promise<void> {
  if ((await realpath(path)) === path) return;
  throw new SluiceError("untrusted", "bridge: a part of that path is a link; pass another path");
}

function taken(key: string): SluiceError {
  return new SluiceError(
    "already_exists",
    `bridge: ${JSON.stringify(key)} is there already; pass another path`,
  );
}
