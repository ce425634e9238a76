import { randomFillSync } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { openPlain } from "./plain-file.ts";

/** Room on a disk that is held by a file, to be given back when the disk is full. */
export interface DiskReserve {
  /** Gives the next part of it back. Resolves with false when nothing is left. */
  release(): Promise<boolean>;
  /** Holds all of it again. Resolves with false when the disk has no room for that. */
  refill(): Promise<boolean>;
  close(): Promise<void>;
}

/** Bytes given back at a time: other programs that write to a full disk take them, too. */
const stepBytes = 64 * 1024;

/** Opens the file that holds the room; it stays when it is closed. Rejects with `corrupt` for a link at its place. */
export async function openReserve(path: string, bytes: number): Promise<DiskReserve> {
  const file = await openPlain(path, constants.O_RDWR | constants.O_CREAT);
  let held = (await file.stat()).size;
  return {
    async release() {
      if (held === 0) return false;
      held = Math.max(0, held - stepBytes);
      await file.truncate(held);
      return true;
    },
    async refill() {
      try {
        while (held < bytes) held += await extend(file, held, Math.min(stepBytes, bytes - held));
        await file.datasync();
        return true;
      } catch (error) {
        if (!isFull(error)) throw error;
        await file.truncate(held);
        return false;
      }
    },
    close: () => file.close(),
  };
}

async function extend(file: FileHandle, at: number, bytes: number): Promise<number> {
  // random: some file systems keep nothing of zeros, and little of what repeats itself
  const { bytesWritten } = await file.write(randomFillSync(Buffer.alloc(bytes)), 0, bytes, at);
  return bytesWritten;
}

/** True for what the system says when a disk or a quota is full. */
export function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}
