import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Bytes that wait on disk until their number is known. */
export interface Spool {
  append(bytes: Uint8Array): Promise<void>;
  /** Fills `into` with the bytes from `position` on; they must have been appended. */
  read(position: number, into: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

/** Opens an empty spool in the system's folder for temporary files. */
export async function openSpool(): Promise<Spool> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-graph-"));
  let file: FileHandle;
  try {
    file = await open(join(folder, "upload"), "wx+", 0o600);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  let length = 0;
  return {
    async append(bytes) {
      for (let at = 0; at < bytes.byteLength;) {
        const { bytesWritten } = await file.write(bytes, at, bytes.byteLength - at, length);
        at += bytesWritten;
        length += bytesWritten;
      }
    },
    async read(position, into) {
      for (let at = 0; at < into.byteLength;) {
        const { bytesRead } = await file.read(into, at, into.byteLength - at, position + at);
        if (bytesRead === 0)
          throw new Error("the temporary file is shorter than the written bytes");
        at += bytesRead;
      }
    },
    async close() {
      await file.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
