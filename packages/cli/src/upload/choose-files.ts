import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  globDepth,
  globFilter,
  globStart,
  pathFilter,
  type NameFilter,
} from "../download/name-filter.ts";
import { fault } from "../terminal/failure.ts";
import { note } from "../terminal/print.ts";

/** Which files of folders and globs to send. */
export interface FileChoiceOptions {
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  /** Send files of subfolders under their names alone. */
  readonly flat?: boolean;
}

/** The files that a command line names. */
export interface ChosenFiles {
  readonly paths: readonly string[];
  /** Some come from a folder or a glob. */
  readonly isTree: boolean;
}

/**
 * The files that arguments name: files themselves, those of folders, and those that match a glob, in the order of their paths.
 * Hidden files and links of folders are left out, with a note. Tools take names without folders: files of subfolders need
 * `flat`, and two of one name are refused.
 */
export async function chooseFiles(
  names: readonly string[],
  { include = [], exclude = [], flat = false }: FileChoiceOptions,
  signal: AbortSignal,
): Promise<ChosenFiles> {
  const filter = pathFilter(include, exclude);
  const paths: string[] = [];
  const walk = new FolderWalk(signal);
  for (const name of names) {
    const info = await stat(name).catch(() => undefined);
    const glob = info ? undefined : globStart(name);
    if (info?.isDirectory()) paths.push(...(await walk.filesBelow(name, Infinity, filter)));
    else if (glob === undefined) paths.push(name);
    else {
      const pattern = name.slice(glob);
      const matches = globFilter(pattern);
      const found = await walk.filesBelow(
        name.slice(0, glob) || ".",
        globDepth(pattern),
        (path) => matches(path) && filter(path),
      );
      if (found.length === 0) throw fault("invalid_argument", `no file matches ${name}`, "see ls");
      paths.push(...found);
    }
  }
  if (walk.leftOut > 0) note(`${walk.leftOut} hidden files and links were left out`);
  if (walk.isUsed) ensureNames(paths, walk.deepest, flat);
  else if (include.length + exclude.length > 0)
    throw fault("invalid_argument", "--include and --exclude choose from a folder", "name one");
  return { paths: walk.isUsed ? [...new Set(paths)] : paths, isTree: walk.isUsed };
}

class FolderWalk {
  readonly #signal: AbortSignal;
  leftOut = 0;
  isUsed = false;
  /** A file in a subfolder, if there is one. */
  deepest: string | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** The wanted files below a folder, those at most `depth` folders deep. */
  async filesBelow(root: string, depth: number, isWanted: NameFilter): Promise<readonly string[]> {
    this.isUsed = true;
    const found: string[] = [];
    await this.#walk({ root, isWanted, found }, "", depth);
    return found;
  }

  async #walk(search: FileSearch, below: string, depth: number): Promise<void> {
    const { root, isWanted, found } = search;
    this.#signal.throwIfAborted();
    const entries = await readdir(join(root, below), { withFileTypes: true }).catch(() => {
      throw fault("invalid_argument", `${join(root, below)} cannot be read`, "name another folder");
    });
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      const isHidden = entry.name.startsWith(".");
      if (entry.isDirectory() && !isHidden) {
        if (depth > 0) await this.#walk(search, path, depth - 1);
      } else if (!entry.isFile() || isHidden) this.leftOut += 1;
      else if (isWanted(path)) {
        found.push(join(root, path));
        if (below !== "") this.deepest ??= join(root, path);
      }
    }
  }
}

interface FileSearch {
  readonly root: string;
  readonly isWanted: NameFilter;
  readonly found: string[];
}

function ensureNames(paths: readonly string[], deepest: string | undefined, flat: boolean): void {
  if (paths.length === 0)
    throw fault("invalid_argument", "no file is left to send", "name a folder with files");
  if (deepest !== undefined && !flat)
    throw fault(
      "invalid_argument",
      `${deepest} is in a subfolder, and names of sent files have no folders`,
      "pass --flat to send all under their names alone, or a glob such as 'folder/*'",
    );
  const byName = new Map<string, string>();
  for (const path of paths) {
    const other = byName.get(basename(path));
    if (other !== undefined && other !== path)
      throw fault(
        "invalid_argument",
        `${other} and ${path} have the same name, and names of sent files have no folders`,
        "send them with two commands",
      );
    byName.set(basename(path), path);
  }
}
