import { lstat, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { diskError, diskOrigin } from "../save/disk-error.ts";

/** What two paths have in common that are one file here: where case does not count, one would replace the other. */
export function pathKey(path: string): string {
  return process.platform === "linux" ? path : path.normalize("NFC").toLowerCase();
}

/** A folder that gets a tree of files, in folders that are made as they are needed. */
export class TreeFolder {
  readonly #root: string;
  // recent ones: of a tree without an end memory is not to grow
  readonly #made = new Map<string, Promise<void>>();
  readonly #found = new Map<string, Promise<boolean>>();

  constructor(root: string) {
    this.#root = root;
  }

  /**
   * Makes the folders of a file and gives its path. `path` is relative, with `/`, and of safe names. Throws `already_exists`
   * if a file or a link stands in place of a folder, or a folder or a link in place of the file: a link may lead out of this
   * one, and a save into a folder takes the server's name.
   */
  async place(path: string): Promise<string> {
    const parts = path.split("/");
    for (let depth = 0; depth < parts.length; depth += 1)
      await this.#make(join(this.#root, ...parts.slice(0, depth)), depth === 0);
    const file = join(this.#root, ...parts);
    await ensureFileOrNone(file);
    return file;
  }

  /** The path of a file that may be there: `undefined` if a link or a file stands in place of one of its folders, or none. */
  async find(path: string): Promise<string | undefined> {
    const parts = path.split("/");
    for (let depth = 1; depth < parts.length; depth += 1) {
      const folder = join(this.#root, ...parts.slice(0, depth));
      let isThere = this.#found.get(folder);
      if (!isThere) remember(this.#found, folder, (isThere = isRealFolder(folder)));
      if (!(await isThere)) return undefined;
    }
    return join(this.#root, ...parts);
  }

  #make(folder: string, isRoot: boolean): Promise<void> {
    let making = this.#made.get(folder);
    if (!making)
      remember(this.#made, folder, (making = isRoot ? makeRoot(folder) : makeFolder(folder)));
    return making;
  }
}

function remember<T>(folders: Map<string, T>, folder: string, fact: T): void {
  if (folders.size >= maxFolders) folders.clear();
  folders.set(folder, fact);
}

const maxFolders = 10_000;

async function isRealFolder(folder: string): Promise<boolean> {
  return (await lstat(folder).catch(() => undefined))?.isDirectory() ?? false;
}

async function makeRoot(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw diskError(`save to ${JSON.stringify(folder)}`, error);
  }
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    const info = await lstat(folder).catch(() => undefined);
    if (info?.isDirectory()) return;
    if (!info) throw diskError(`save to ${JSON.stringify(folder)}`, error);
    throw inTheWay(folder, "folder");
  }
}

async function ensureFileOrNone(path: string): Promise<void> {
  const info = await lstat(path).catch(() => undefined);
  if (info && !info.isFile()) throw inTheWay(path, "file");
}

function inTheWay(path: string, wanted: "file" | "folder"): SluiceError {
  return new SluiceError("already_exists", `client: ${JSON.stringify(path)} is not a ${wanted}`, {
    origin: diskOrigin,
  });
}
