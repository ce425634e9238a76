import { lstat, readFile } from "node:fs/promises";
import { createKeyRing, parseKey, SluiceError, type KeyRing, type SealingKey } from "@sluice/core";

/** Options of {@link openKeyFile}. */
export interface KeyFileOptions {
  /** A file of keys as `sluice keys new` makes it, one on each line. */
  readonly path: string;
  /** Pause between two looks at the file, in milliseconds. Default 250. */
  readonly pollMs?: number;
  /** Gets what is wrong with a file that was changed; the keys stay as they were. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}

/** The keys of a file that is followed. */
export interface KeyFile extends Disposable {
  readonly keys: KeyRing;
  /** Follows it no more. Idempotent. */
  close(): void;
}

/**
 * Opens a file of keys and follows it: what is written there counts in every process that follows it, so
 * keys are rotated without a restart, and the tokens of a key that was taken out are dead within a second.
 * Rejects with `invalid_argument` for a file that is none or that others may read.
 */
export async function openKeyFile(options: KeyFileOptions): Promise<KeyFile> {
  const {
    path,
    pollMs = 250,
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
      // a file that stays as it is, is complained about once
      if (String(error) !== complaint) onError(error);
      complaint = String(error);
    }
  }

  let looking = false;
  const timer = setInterval(() => {
    if (looking) return;
    looking = true;
    void follow().finally(() => (looking = false));
  }, pollMs);
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

/** What is in the file, unless it is the version that is known. */
async function look(
  path: string,
  known?: string,
): Promise<{ keys: SealingKey[]; version: string } | undefined> {
  try {
    const version = await versionOf(path);
    if (version === known) return undefined;
    const keys = parseKeyFile(await readFile(path, "utf8"));
    createKeyRing(keys);
    return { keys, version };
  } catch (error) {
    if (SluiceError.is(error)) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    // the call that missed it is named otherwise, and would be complained about again
    const why = code === "ENOENT" ? "it is not there" : message;
    throw new SluiceError("invalid_argument", `key file ${path}: ${why}`, { cause: error });
  }
}

/** Changes whenever the file does. Also sees to it that nobody else may read it. */
async function versionOf(path: string): Promise<string> {
  const stats = await lstat(path, { bigint: true });
  if (!stats.isFile())
    throw new SluiceError(
      "invalid_argument",
      `key file ${path}: it is no regular file; name the file itself, not a link to it`,
    );
  if (process.platform !== "win32" && (stats.mode & 0o077n) !== 0n)
    throw new SluiceError(
      "invalid_argument",
      `key file ${path}: others may read it; run chmod 600 on it, and rotate its keys`,
    );
  return `${stats.ino} ${stats.size} ${stats.mtimeNs}`;
}
