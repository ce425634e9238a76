import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { localFileName } from "@sluice/core/internal";
import { pipeline } from "node:stream/promises";

/** Standard input in a private file. */
interface StdinFile {
  readonly path: string;
  remove(): Promise<void>;
}

/** Stores standard input to its end under a name, made safe: a server gets the size before the first byte. */
export async function storeStdin(name: string, signal: AbortSignal): Promise<StdinFile> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-stdin-"));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  const path = join(folder, localFileName(name));
  try {
    await pipeline(process.stdin, createWriteStream(path, { flags: "wx", mode: 0o600 }), {
      signal,
    });
  } catch (error) {
    await remove();
    signal.throwIfAborted();
    throw error;
  }
  return { path, remove };
}
