import { unlink } from "node:fs/promises";
import { basename } from "node:path";
import { isFullDisk } from "./disk-error.ts";
import type { PartFile } from "./part-file.ts";
import { readRecord, thisProcess, writeRecord, type KeptVersion } from "./resume-record.ts";

/**
 * Keeps the record of a resumable part file true to what is on the disk. A record that names another part file belongs
 * to another save: it stays as it is, and this save cannot be resumed.
 */
export interface ResumeKeeper {
  /** Bytes arrived: the record is updated now and then, so that a crash loses little. */
  note(): void;
  /**
   * Cuts the part file down to what is surely on the disk, and records that for another run, also on a full disk. False
   * if there is nothing to resume from.
   */
  keep(): Promise<boolean>;
  /** Deletes the record: there is nothing to resume from until bytes arrive again. */
  forget(): Promise<void>;
}

/** A keeper for a part file; `version` tells which version of the resource its bytes belong to. */
export function createResumeKeeper(
  part: PartFile,
  recordPath: string,
  version: () => KeptVersion | undefined,
): ResumeKeeper {
  const name = basename(part.path);
  let last = Date.now();
  let isWriting = false;
  let writing: Promise<unknown> = Promise.resolve();

  async function isAnothers(): Promise<boolean> {
    const there = await readRecord(recordPath);
    return there !== undefined && there.part !== name;
  }

  async function record(state: "written" | "over"): Promise<boolean> {
    const of = version();
    const keptBytes = part.gapless();
    if (!of || keptBytes === 0 || (await isAnothers())) return false;
    await part.sync();
    const writer = state === "written" && { writer: thisProcess() };
    await writeRecord(recordPath, { ...of, part: name, keptBytes, ...writer });
    return true;
  }

  return {
    note() {
      if (isWriting || Date.now() - last < everyMs) return;
      isWriting = true;
      writing = record("written")
        .catch(() => {})
        .finally(() => {
          isWriting = false;
          last = Date.now();
        });
    },
    async keep() {
      await writing;
      // what had arrived when the transfer broke, and not only what was written by then
      await part.flush().catch(() => {});
      // the record needs room: if there is none, the last bytes make it
      for (const spareBytes of [0, 65_536, 2 ** 20])
        try {
          await part.cut(spareBytes);
          return await record("over");
        } catch (error) {
          if (!isFullDisk(error)) return false;
        }
      return false;
    },
    async forget() {
      await writing;
      if (!(await isAnothers())) await unlink(recordPath).catch(() => {});
    },
  };
}

// a killed process loses what came since; a slow disk has this time for more bytes between two records
const everyMs = 250;
