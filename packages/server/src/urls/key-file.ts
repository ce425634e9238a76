import { constants, type BigIntStats } from "node:fs";
import { lstat } from "node:fs/promises";
import { createKeyRing, SluiceError, type KeyRing, type SealingKey } from "@sluice/core";
import { parseKey } from "@sluice/core/internal";
import { openPlain } from "../audit/plain-file.ts";

/** Options of {@link openKeyFile}. */
export interface KeyFileOptions {
  /** A file of keys as `sluice keys new` makes it, one on each line. */
  readonly path: string;
  /** Pause between two looks at the file, in milliseconds. Default 250. */
  readonly pollIntervalMs?: number;
  /** Gets the error of a changed file that cannot be used; the keys stay as they were. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}

/** The keys of a file that is followed. */
export interface KeyFile extends Disposable {
  readonly keys: KeyRing;
  /** Follows it no more. Idempotent. */
  close(): void;
}

/**
 * Opens a file of keys and follows it: what is written there counts in every process that follows it, so keys are
 * rotated without a restart, and the tokens of a key that was taken out end within a second. Rejects with
 * `invalid_argument` for a file without such keys, and for one that others may read.
 */
export async function openKeyFile(options: KeyFileOptions): Promise<KeyFile> {
  const {
    path,
    pollIntervalMs = 250,
    // oxlint-disable-next-line no-console -- the documented default
    onError = (error) => console.error("sluice:", error),
  } = options;
  const first = (await look(path))!;
  const keys = createKeyRing(first.keys);
  let { version } = first;
  let complaint = "";

  async function follow(): Promise<void> {
    try {
      const found = await look(path, version);
      if (!found) return;
      keys.replace(found.keys);
      ({ version } = found);
      complaint = "";
    } catch (error) {
      // reported once for as long as the file stays as it is
      if (String(error) !== complaint) onError(error);
      complaint = String(error);
    }
  }

  let isLooking = false;
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    void follow().finally(() => (isLooking = false));
  }, pollIntervalMs);
  timer.unref();
  const close = (): void => clearInterval(timer);
  return { keys, close, [Symbol.dispose]: close };
}

/** The keys in the text of a key file. A `TypeError` that repeats none of them when it is malformed. */
export function parseKeyFile(text: string): SealingKey[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map(parseKey);
}

/** The content of the file, unless it is the known version. */
async function look(
  path: string,
  known?: string,
): Promise<{ keys: SealingKey[]; version: string } | undefined> {
  try {
    const version = versionOf(path, await lstat(path, { bigint: true }));
    if (version === known) return undefined;
    const found = await read(path);
    createKeyRing(found.keys);
    return found;
  } catch (error) {
    if (SluiceError.is(error) && error.code === "invalid_argument") throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    // messages of `lstat` and `open` differ, so the same missing file would be reported twice
    const why = code === "ENOENT" ? "it is not there" : message;
    throw new SluiceError("invalid_argument", `key file ${path}: ${why}`, { cause: error });
  }
}

/** Reads the very file that was checked: a file that takes its name counts at the next look. */
async function read(path: string): Promise<{ keys: SealingKey[]; version: string }> {
  const file = await openPlain(path, constants.O_RDONLY);
  try {
    const version = versionOf(path, await file.stat({ bigint: true }));
    return { keys: parseKeyFile(await file.readFile("utf8")), version };
  } finally {
    await file.close();
  }
}

/** Changes whenever the file does. Throws for a file that others may read, and for a path that is not a file. */
function versionOf(path: string, stats: BigIntStats): string {
  if (!stats.isFile())
    throw new SluiceError(
      "invalid_argument",
      `key file ${path}: it is not a regular file; name the file itself, not a link to it`,
    );
  if (process.platform !== "win32" && (stats.mode & 0o077n) !== 0n)
    throw new SluiceError(
      "invalid_argument",
      `key file ${path}: others may read it; run chmod 600 on it, and rotate its keys`,
    );
  return `${stats.ino} ${stats.size} ${stats.mtimeNs}`;
}
