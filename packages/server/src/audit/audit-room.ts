import { randomFillSync } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { AuditRecord } from "./audit-record.ts";
import { openPlain } from "./plain-file.ts";

/** What an audit file does about a disk that is full. */
export interface AuditRoom {
  /** Whether a record is written even now. A refusal that is not is counted. */
  takes(record: AuditRecord): boolean;
  /** Lines to write before the next record. */
  notes(): readonly object[];
  /** The lines of {@link notes} are written. */
  noted(): void;
  /** The disk is full: gives back some of what is held. Resolves with false when nothing is left. */
  release(): Promise<boolean>;
  /** Looks from time to time whether a full disk has room again, and holds it. Never rejects. */
  refill(): Promise<void>;
  close(): Promise<void>;
}

interface AuditRoomOptions {
  /** Path of the audit file. */
  readonly path: string;
  /** Bytes to hold. */
  readonly bytes: number;
  readonly onWarning: (message: string) => void;
}

/** Milliseconds between two looks at a full disk. */
const lookEveryMs = 10_000;

/** Holds room beside an audit file. Rejects with `corrupt` for a link in place of `<path>.reserve`. */
export async function createAuditRoom({
  path,
  bytes,
  onWarning,
}: AuditRoomOptions): Promise<AuditRoom> {
  const reserve = bytes > 0 ? await openReserve(`${path}.reserve`, bytes) : undefined;
  let fullSince: number | undefined;
  let lookedAt = 0;
  let dropped = 0;
  let notes: readonly object[] = [];

  function becomeFull(): void {
    if (fullSince !== undefined) return;
    fullSince = lookedAt = Date.now();
    dropped = 0;
    notes = [{ event: "full", time: fullSince }];
    onWarning(
      `audit: the disk of ${path} is full: refusals are only counted, and what is left of ${bytes} bytes is for the rest; make room`,
    );
  }

  if (reserve && !(await reserve.refill())) becomeFull();
  return {
    takes(record) {
      if (fullSince === undefined || !isRefusal(record)) return true;
      dropped += record.count ?? 1;
      return false;
    },
    notes: () => notes,
    noted: () => void (notes = []),
    async release() {
      if (!reserve) return false;
      becomeFull();
      return reserve.release();
    },
    async refill() {
      if (fullSince === undefined || Date.now() - lookedAt < lookEveryMs) return;
      lookedAt = Date.now();
      if (!(await reserve?.refill().catch(() => false))) return;
      notes = [...notes, { event: "freed", time: lookedAt, since: fullSince, refusals: dropped }];
      fullSince = undefined;
      onWarning(`audit: the disk of ${path} has room again; ${dropped} refusals were only counted`);
    },
    close: async () => reserve?.close(),
  };
}

/** Gave nothing away, and nothing waits for it. */
function isRefusal({ outcome, count }: AuditRecord): boolean {
  return outcome === "denied" || count !== undefined;
}

/** Room on a disk that is held by a file, to be given back when the disk is full. */
interface DiskReserve {
  /** Gives the next part of it back. Resolves with false when nothing is left. */
  release(): Promise<boolean>;
  /** Holds all of it again. Resolves with false when the disk has no room for that. */
  refill(): Promise<boolean>;
  close(): Promise<void>;
}

/** Bytes given back at a time: other programs that write to a full disk also take them. */
const stepBytes = 64 * 1024;

/** Opens the file that holds the room; it stays when it is closed. Rejects with `corrupt` for a link at its place. */
async function openReserve(path: string, bytes: number): Promise<DiskReserve> {
  const file = await openPlain(path, constants.O_RDWR | constants.O_CREAT);
  let heldBytes = (await file.stat()).size;
  return {
    async release() {
      if (heldBytes === 0) return false;
      heldBytes = Math.max(0, heldBytes - stepBytes);
      await file.truncate(heldBytes);
      return true;
    },
    async refill() {
      try {
        while (heldBytes < bytes)
          heldBytes += await extend(file, heldBytes, Math.min(stepBytes, bytes - heldBytes));
        await file.datasync();
        return true;
      } catch (error) {
        if (!isFull(error)) throw error;
        await file.truncate(heldBytes);
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

/** True for errors of the system when a disk or a quota is full. */
export function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}
