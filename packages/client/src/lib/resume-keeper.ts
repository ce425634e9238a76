import type { PartFile } from "./part-file.ts";
import { forgetKept, writeRecord, type KeptVersion } from "./resume-record.ts";

/** Keeps the record of a resumable part file true to what is on the disk. */
export interface ResumeKeeper {
  /** Bytes arrived: now and then the record follows, so that a crash loses little. */
  note(): void;
  /** Records what is there for another run. False when there is nothing to go on from. */
  keep(): Promise<boolean>;
  /** The part file begins anew: there is nothing to go on from until bytes arrive again. */
  reset(): Promise<void>;
  /** Deletes the record, and with it the claim on the part file. */
  forget(): Promise<void>;
}

/** A keeper for a part file; `version` tells which version of the resource its bytes belong to. */
export function createResumeKeeper(
  part: PartFile,
  version: () => KeptVersion | undefined,
): ResumeKeeper {
  let last = Date.now();
  let writing: Promise<unknown> = Promise.resolve();

  async function record(pid?: number): Promise<boolean> {
    const of = version();
    const keptBytes = part.gapless();
    if (!of || keptBytes === 0) return false;
    await part.sync();
    await writeRecord(part.path, { ...of, keptBytes, ...(pid !== undefined && { pid }) });
    return true;
  }

  return {
    note() {
      if (Date.now() - last < everyMs) return;
      last = Date.now();
      writing = writing.then(() => record(process.pid)).catch(() => {});
    },
    async keep() {
      await writing;
      // what had arrived when the transfer broke, and not only what was written by then
      await part.flush().catch(() => {});
      return record().catch(() => false);
    },
    async reset() {
      await writing;
      const of = version();
      if (of) await writeRecord(part.path, { ...of, keptBytes: 0, pid: process.pid });
    },
    async forget() {
      await writing;
      await forgetKept(part.path);
    },
  };
}

const everyMs = 2_000;
