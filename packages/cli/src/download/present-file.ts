import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

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
 * second, as a save leaves it. `undefined` for any other, and if too little is promised to tell. With `force` only a digest
 * tells: the user asks to replace the file, whatever its time is.
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

async function digestOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash, { signal });
  return hash.digest("hex");
}
