import { lstat, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { diskError } from "@sluice/client/internal";
import { type Advice, fault } from "../terminal/failure.ts";

/** A folder that gets a tree of files, in folders that are made as they are needed. */
export class OutputFolder {
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

function inTheWay(path: string, wanted: "file" | "folder"): Advice {
  return fault(
    "already_exists",
    `${JSON.stringify(path)} is not a ${wanted}`,
    "remove it, or pass -o for another folder",
  );
}

/** Throws for several resources whose output is not a folder; for a tree, a missing one will be made. */
export async function ensureFolder(output: string, isTree: boolean): Promise<void> {
  if (await isFolder(output)) return;
  if (isTree && !(await stat(output).catch(() => undefined))) return;
  throw fault("invalid_argument", `${output} is not a folder`, "name one for several resources");
}

/** True for a folder that is there, and for a path that names one by the slash at its end. */
async function isFolder(path: string): Promise<boolean> {
  return path.endsWith("/") || ((await stat(path).catch(() => undefined))?.isDirectory() ?? false);
}

/** The path of a folder, as one that names it even if it is missing. */
export function asFolder(path: string): string {
  return path.endsWith("/") ? path : `${path}/`;
}

/** The path for a file that gets `name` if `output` is a folder. The library would number a taken name; a repeated command should not. */
export async function pathIn(output: string, name: string): Promise<string> {
  if (!(await isFolder(output))) return output;
  // as the library does for a missing folder; the save reports its faults
  if (output.endsWith("/")) await mkdir(output, { recursive: true }).catch(() => {});
  const path = join(output, name);
  // a save would go into it, wherever a link leads
  if (await isFolder(path)) throw inTheWay(path, "file");
  return path;
}
