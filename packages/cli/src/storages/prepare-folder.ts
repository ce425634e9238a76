import { mkdir, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { errnoOf, fault } from "../terminal/failure.ts";
import { note, printable } from "../terminal/print.ts";

/** Throws for a missing folder. `option` is what named it. */
export async function ensureFolder(folder: string, option?: string): Promise<void> {
  if ((await kindOf(folder)) !== "folder")
    throw fault(
      "invalid_argument",
      `${named(folder, option)} is not a folder`,
      "name one that exists",
    );
}

/** Throws for anything but a folder that exists. `option` is what named it. */
export async function ensureNoFile(folder: string, option?: string): Promise<void> {
  if ((await kindOf(folder)) === "other")
    throw fault("invalid_argument", `${named(folder, option)} is not a folder`, "name another one");
}

/** Creates a missing folder, but none above it, and says so. `mode` is that of a new one, `option` is what named it. */
export async function prepareFolder(folder: string, mode: number, option?: string): Promise<void> {
  await ensureNoFile(folder, option);
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EEXIST") return;
    throw fault(
      "invalid_argument",
      `${named(folder, option)} cannot be created (${errno})`,
      "create it, or name one that exists",
    );
  }
  note(`Made ${printable(resolve(folder))}`);
}

function named(folder: string, option: string | undefined): string {
  return option === undefined ? folder : `${option} ${folder}`;
}

async function kindOf(path: string): Promise<"folder" | "other" | undefined> {
  try {
    return (await stat(path)).isDirectory() ? "folder" : "other";
  } catch (error) {
    const errno = errnoOf(error);
    // below a file there is never a folder
    return errno === "ENOENT" ? undefined : "other";
  }
}
