import {
  copyFile,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, resolve } from "node:path";
import { fault, errnoOf } from "../terminal/failure.ts";
import { note, print, printable } from "../terminal/print.ts";
import { addServer } from "./config-text.ts";
import type { StartCommand } from "./host-config.ts";
import { configFileOf, type ConfigFile, type HostName } from "./host-files.ts";

/** Where a server goes, and how. */
export interface InstallTarget {
  readonly host: HostName;
  /** Name of the server in the configuration. */
  readonly name: string;
  /** Only show the change. */
  readonly isDryRun: boolean;
}

/**
 * Adds a server that a host starts by this command to the configuration of the host, and prints the change. Keeps the old file
 * beside it, as `NAME.TIME.bak`. A file behind a symbolic link is written, and the link stays. Throws if the host is not on this
 * machine.
 */
export async function installServer(
  { host, name, isDryRun }: InstallTarget,
  { command, args }: StartCommand,
): Promise<void> {
  const file = configFileOf(host, {
    platform: process.platform,
    home: homedir(),
    folder: process.cwd(),
    env: process.env,
  });
  const { title, format, key, advice } = file;
  await ensureHost(file);
  const path = await targetOf(file.path);
  const old = await readIfThere(path);
  const value = file.isTyped ? { type: "stdio", command, args } : { command, args };
  const text = addServer(format, old ?? "", { key, name, value });
  if (text === old) return print(`${title} has the server already: ${printable(path)}`);
  for (const line of addedLines(old ?? "", text)) await print(line);
  if (isDryRun) return;
  const backup = old === undefined ? undefined : `${path}.${Date.now()}.bak`;
  if (backup !== undefined) await copyFile(path, backup);
  await replace(path, text);
  const keptNote = backup === undefined ? "" : `; the old file is ${printable(backup)}`;
  note(`wrote ${printable(path)}${keptNote}\nNext: ${advice}.`);
}

/** The file that a path leads to; behind a link to a missing one, that file: the link stays. */
async function targetOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (errnoOf(error) === "ELOOP")
      throw fault(
        "invalid_argument",
        `${printable(path)} is a link that leads to itself`,
        "remove it",
      );
  }
  const link = await readlink(path).catch(() => undefined);
  if (link === undefined) return path;
  const target = resolve(dirname(path), link);
  if (await stat(dirname(target)).catch(() => undefined)) return targetOf(target);
  throw fault(
    "not_found",
    `${printable(path)} is a link to ${printable(target)}, and there is no such folder`,
    "make the folder, or remove the link",
  );
}

/** Claude Code has its file in any folder; the others make their folder when they first run. */
async function ensureHost({ title, path }: ConfigFile): Promise<void> {
  const folder = dirname(path);
  if (await stat(folder).catch(() => undefined)) return;
  throw fault(
    "not_found",
    `${title} was not found on this machine: there is no folder ${printable(folder)}`,
    `install it and start it once, or add what --print-config prints`,
  );
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** The host never sees half of it. */
async function replace(path: string, text: string): Promise<void> {
  const mode = await stat(path).then(
    (known) => known.mode & 0o777,
    () => 0o600,
  );
  const part = `${path}.${process.pid}.part`;
  try {
    await writeFile(part, text, { mode, flag: "wx" });
    await rename(part, path);
  } finally {
    await rm(part, { force: true });
  }
}

/** The lines that were added, and nothing of what stood beside them: other servers have credentials there. */
export function addedLines(before: string, after: string): readonly string[] {
  let start = 0;
  while (start < before.length && before[start] === after[start]) start += 1;
  const end = after.length - (before.length - start);
  const lines = after.slice(start, end).split(/\r?\n/);
  return lines.filter((line) => /[^\s,]/.test(line)).map((line) => `+ ${printable(line)}`);
}
