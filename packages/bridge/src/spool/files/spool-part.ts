import { constants } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { randomPartName } from "@sluice/client";
import { createSha256 } from "@sluice/core";
import { folderFault } from "./folder-fault.ts";

/** A file of the spool folder that has no name yet. */
export interface SpoolPart {
  /** Bytes that are written. */
  readonly bytes: number;
  /** Appends. The chunk is free again when it resolves. */
  write(chunk: Uint8Array): Promise<void>;
  /** Bytes that were written before, at most `length` from `position` on. */
  read(position: number, length: number): Promise<Uint8Array>;
  /** Ends the writing: lower-case hex of the SHA-256. */
  seal(): Promise<string>;
  /** Gives it a name like this one, with an extension, and its path. */
  publish(name: string): Promise<string>;
  /** Removes it, under whatever name. Idempotent. */
  discard(): Promise<void>;
}

/** What the folder does for its parts. */
export interface PartOwner {
  /** Counts bytes before they are written; throws `no_space`. */
  reserve(bytes: number): void;
  release(bytes: number): void;
  ended(): void;
  publish(from: string, name: string): Promise<string>;
}

/** Creates a file that did not exist; no link is followed. Only this user reads it. */
export async function createPart(folder: string, owner: PartOwner): Promise<SpoolPart> {
  let path = join(folder, randomPartName());
  const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants;
  const handle = await open(path, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW, 0o600).catch((error) => {
    throw folderFault(error);
  });
  const hash = createSha256();
  let bytes = 0;
  let isDiscarded = false;

  return {
    get bytes() {
      return bytes;
    },
    async write(chunk) {
      owner.reserve(chunk.length);
      bytes += chunk.length;
      hash.update(chunk);
      let written = 0;
      while (written < chunk.length)
        written += await handle
          .write(chunk, written)
          .then(({ bytesWritten }) => bytesWritten)
          .catch((error) => {
            throw folderFault(error);
          });
    },
    async read(position, length) {
      const buffer = new Uint8Array(length);
      const { bytesRead } = await handle.read(buffer, 0, length, position);
      return buffer.subarray(0, bytesRead);
    },
    async seal() {
      await handle.close();
      return hash.digest();
    },
    async publish(name) {
      path = await owner.publish(path, name);
      owner.ended();
      return path;
    },
    async discard() {
      if (isDiscarded) return;
      isDiscarded = true;
      owner.ended();
      owner.release(bytes);
      await handle.close();
      await unlink(path).catch(() => {});
    },
  };
}
