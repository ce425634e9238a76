import { unlink } from "node:fs/promises";
import { basename } from "node:path";
import type { PartFile } from "./part-file.ts";
import { readRecord, thisProcess, writeRecord, type KeptVersion } from "./resume-record.ts";

/**
 * Keeps the record of a resumable part file true to what is on the disk. A record that names
 * another part file belongs to another save: it stays as it is, and this one cannot be gone on with.
 */
export interface ResumeKeeper {
  /** Bytes arrived: now and then the record follows, so that a crash loses little. */
  note(): void;
  /** Records what is there for another run. False when there is nothing to go on from. */
  keep(): Promise<boolean>;
  /** Deletes the record: there is nothing to go on from, until bytes arrive again. */
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
      if (Date.now() - last < everyMs) return;
      last = Date.now();
      writing = writing.then(() => record("written")).catch(() => {});
    },
    async keep() {
      await writing;
      // what had arrived when the transfer broke, and not only what was written by then
      await part.flush().catch(() => {});
      return record("over").catch(() => false);
    },
    async forget() {
      await writing;
      if (!(await isAnothers())) await unlink(recordPath).catch(() => {});
    },
  };
}

const everyMs = 2_000;
