import type { AuditRecord } from "./audit-record.ts";
import { openReserve } from "./disk-reserve.ts";

/** What an audit file does about a disk that is full. */
export interface AuditRoom {
  /** Those of a batch that are written even now; the refusals among the others are counted. */
  needed<Entry>(batch: readonly Entry[], recordOf: (entry: Entry) => AuditRecord): Entry[];
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

/** A disk that was full is looked at so often, in milliseconds. */
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
    needed(batch, recordOf) {
      if (fullSince === undefined) return [...batch];
      return batch.filter((entry) => {
        const record = recordOf(entry);
        const isNeeded = !isRefusal(record);
        if (!isNeeded) dropped += record.count ?? 1;
        return isNeeded;
      });
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
