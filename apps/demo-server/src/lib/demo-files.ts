import { constants, copyFileSync, linkSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A folder to work in, gone after `remove`. */
export interface WorkFolder {
  readonly path: string;
  remove(): void;
}

/** Makes an empty folder below the system's temporary one. */
export function createWorkFolder(): WorkFolder {
  const path = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Puts a few real files of this machine into a folder: the Node program itself, and some of this repository. */
export function addRealFiles(folder: string): void {
  const repository = fileURLToPath(new URL("../../../../", import.meta.url));
  for (const file of [
    process.execPath,
    join(repository, "pnpm-lock.yaml"),
    join(repository, "docs/sluice.svg"),
    join(repository, "LICENSE"),
  ])
    addFile(file, join(folder, basename(file)));
}

/** A hard link costs nothing; where there can be none, a copy (a cheap one on file systems that share blocks). */
function addFile(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to, constants.COPYFILE_FICLONE);
  }
}
