import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { TreeFolder } from "@sluice/client/internal";
import { Advice, fault } from "../terminal/failure.ts";

/** A folder that gets a tree of files; what is in the way is told with what to do. */
export class OutputFolder extends TreeFolder {
  override async place(path: string): Promise<string> {
    try {
      return await super.place(path);
    } catch (error) {
      if (!SluiceError.is(error) || error.code !== "already_exists") throw error;
      throw new Advice(error, otherFolderAdvice);
    }
  }
}

const otherFolderAdvice = "remove it, or pass -o for another folder";

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
  if (await isFolder(path))
    throw fault("already_exists", `${JSON.stringify(path)} is not a file`, otherFolderAdvice);
  return path;
}
