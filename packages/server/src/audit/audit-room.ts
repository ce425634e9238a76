import { randomFillSync } from "node:crypto";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { AuditRecord } from "./audit-record.ts";
import { openPlain } from "./plain-file.ts";

interface AuditRoomOptions {
  /** Path of the audit file. */
  readonly path: string;
  /** Bytes to hold. */
  readonly bytes: number;
  readonly onWarning: (message: string) => void;
}

/** Milliseconds between two looks at a full disk. */
const lookEveryMs = 10_000;

/** Holds room beside an audit file, for the records without which nothing is sent when the disk is full. */
export class AuditRoom {
  readonly #options: AuditRoomOptions;
  readonly #reserve: DiskReserve | undefined;
  #fullSince: number | undefined;
  #lookedAt = 0;
  #dropped = 0;
  #notes: readonly object[] = [];

  private constructor(options: AuditRoomOptions, reserve: DiskReserve | undefined) {
    this.#options = options;
    this.#reserve = reserve;
  }

  /** Rejects with `corrupt` for a link in place of `<path>.reserve`. */
  static async open(options: AuditRoomOptions): Promise<AuditRoom> {
    const { path, bytes } = options;
    const reserve = bytes > 0 ? await openReserve(`${path}.reserve`, bytes) : undefined;
    const room = new AuditRoom(options, reserve);
    if (reserve && !(await reserve.refill())) room.#becomeFull();
    return room;
  }

  #becomeFull(): void {
    if (this.#fullSince !== undefined) return;
    const { path, bytes, onWarning } = this.#options;
    this.#fullSince = this.#lookedAt = Date.now();
    this.#dropped = 0;
    this.#notes = [{ event: "full", time: this.#fullSince }];
    onWarning(
      `audit: the disk of ${path} is full: refusals are only counted, and what is left of ${bytes} bytes is for the rest; make room`,
    );
  }

  /** Whether a record is written even now. A refusal that is not is counted. */
  takes(record: AuditRecord): boolean {
    if (this.#fullSince === undefined || !isRefusal(record)) return true;
    this.#dropped += record.count ?? 1;
    return false;
  }

  /** Lines to write before the next record. */
  get notes(): readonly object[] {
    return this.#notes;
  }

  /** Call it once the {@link notes} are written. */
  clearNotes(): void {
    this.#notes = [];
  }

  /** Gives back some room to a full disk. Resolves with false when nothing is left. */
  async release(): Promise<boolean> {
    if (!this.#reserve) return false;
    this.#becomeFull();
    return this.#reserve.release();
  }

  /** Looks from time to time whether a full disk has room again, and holds it. Never rejects. */
  async refill(): Promise<void> {
    const since = this.#fullSince;
    if (since === undefined || Date.now() - this.#lookedAt < lookEveryMs) return;
    const time = (this.#lookedAt = Date.now());
    if (!(await this.#reserve?.refill().catch(() => false))) return;
    const refusals = this.#dropped;
    this.#notes = [...this.#notes, { event: "freed", time, since, refusals }];
    this.#fullSince = undefined;
    const { path, onWarning } = this.#options;
    onWarning(`audit: the disk of ${path} has room again; ${refusals} refusals were only counted`);
  }

  async close(): Promise<void> {
    await this.#reserve?.close();
  }
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
