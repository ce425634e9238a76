import { createHash, randomBytes } from "node:crypto";
import { closeSync, fsync, openSync, renameSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

/**
 * The least that saves the chunks of a file: SHA-256, a hidden file in the target folder, and its name. It checks nothing,
 * and syncs the file and its folder only when told. Gives its length in bytes.
 */
export async function saveBare(
  chunks: AsyncIterable<Uint8Array>,
  path: string,
  isSynced: boolean,
): Promise<number> {
  const hash = createHash("sha256");
  const collected: Uint8Array[] = [];
  for await (const chunk of chunks) {
    hash.update(chunk);
    collected.push(chunk);
  }
  hash.digest("hex");
  const part = join(dirname(path), `.${randomBytes(16).toString("hex")}`);
  const fd = openSync(part, "wx", 0o600);
  const bytes = Buffer.concat(collected);
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
  if (isSynced) await flush(fd);
  closeSync(fd);
  renameSync(part, path);
  if (isSynced) await flushFolder(dirname(path));
  return bytes.length;
}

const flush = promisify(fsync);

async function flushFolder(path: string): Promise<void> {
  const fd = openSync(path, "r");
  await flush(fd);
  closeSync(fd);
}
