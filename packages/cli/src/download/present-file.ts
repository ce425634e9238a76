import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { readFault } from "@sluice/client/internal";
import type { ChosenResource } from "./choose-resources.ts";
import type { OutputFolder } from "./output-folder.ts";

/** What a server promises of a file. */
export interface PromisedFile {
  /** Bytes. */
  readonly size?: number | undefined;
  /** Lower-case hex. */
  readonly sha256?: string | undefined;
  /** Unix milliseconds. */
  readonly modifiedMs?: number | undefined;
}

/**
 * The size of the file at `path` if it is the promised one: of the same digest; without one, of the same size and time, to the
 * second, as a save leaves it. `undefined` for any other, for one that may not be read, and if too little is promised to tell.
 * With `force` only a digest tells: the user asks to replace the file, whatever its time is. Throws for a disk that fails.
 */
export async function presentSize(
  path: string,
  { size, sha256, modifiedMs }: PromisedFile,
  { force = false, signal }: { readonly force?: boolean; readonly signal: AbortSignal },
): Promise<number | undefined> {
  const info = await lstat(path).catch(() => undefined);
  if (!info?.isFile() || (size !== undefined && size !== info.size)) return undefined;
  if (sha256 !== undefined)
    return (await digestOf(path, signal)) === sha256 ? info.size : undefined;
  if (force || size === undefined || modifiedMs === undefined) return undefined;
  return inSeconds(modifiedMs) === inSeconds(info.mtimeMs) ? info.size : undefined;
}

/** HTTP dates have no fractions. */
function inSeconds(ms: number): number {
  return Math.floor(ms / 1_000);
}

async function digestOf(path: string, signal: AbortSignal): Promise<string | undefined> {
  const hash = createHash("sha256");
  try {
    await pipeline(createReadStream(path), hash, { signal });
  } catch (error) {
    signal.throwIfAborted();
    const { code = "" } = error as NodeJS.ErrnoException;
    if (privateCodes.has(code)) return undefined;
    throw readFault(path, error as NodeJS.ErrnoException);
  }
  return hash.digest("hex");
}

const privateCodes: ReadonlySet<string> = new Set(["EACCES", "ENOENT", "EPERM"]);

/** Where a file of a tree is, if it is there as the list of the server has it: as rclone does, by size and time. */
export async function findPresent(
  folder: OutputFolder,
  { path, size, lastModified = "" }: ChosenResource,
  sha256: string | undefined,
  signal: AbortSignal,
): Promise<{ readonly place: string; readonly bytes: number } | undefined> {
  if (path === undefined || size === undefined) return undefined;
  const place = await folder.find(path);
  if (place === undefined) return undefined;
  const listedMs = Date.parse(lastModified);
  const modifiedMs = Number.isNaN(listedMs) ? undefined : listedMs;
  const bytes = await presentSize(place, { size, sha256, modifiedMs }, { signal });
  return bytes === undefined ? undefined : { place, bytes };
}
