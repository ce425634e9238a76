import { unlink } from "node:fs/promises";
import { basename } from "node:path";
import { isFullDisk } from "./disk-error.ts";
import type { PartFile } from "./part-file.ts";
import { readRecord, thisProcess, writeRecord, type KeptVersion } from "./resume-record.ts";

/**
 * Keeps the record of a resumable part file true to what is on the disk. A record that names another part file belongs
 * to another save: it stays as it is, and this save cannot be resumed. `version` tells which version of the resource
 * its bytes belong to.
 */
export class ResumeKeeper {
  readonly #part: PartFile;
  readonly #recordPath: string;
  readonly #version: () => KeptVersion | undefined;
  readonly #name: string;
  #last = Date.now();
  #isWriting = false;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(part: PartFile, recordPath: string, version: () => KeptVersion | undefined) {
    this.#part = part;
    this.#recordPath = recordPath;
    this.#version = version;
    this.#name = basename(part.path);
  }

  /** Bytes arrived: the record is updated now and then, so that a crash loses little. */
  note(): void {
    if (this.#isWriting || Date.now() - this.#last < everyMs) return;
    this.#isWriting = true;
    this.#writing = this.#record("written")
      .catch(() => {})
      .finally(() => {
        this.#isWriting = false;
        this.#last = Date.now();
      });
  }

  /**
   * Cuts the part file down to what is surely on the disk, and records that for another run, also on a full disk. False
   * if there is nothing to resume from.
   */
  async keep(): Promise<boolean> {
    await this.#writing;
    // what had arrived when the transfer broke, and not only what was written by then
    await this.#part.flush().catch(() => {});
    // the record needs room: if there is none, the last bytes make it
    for (const spareBytes of [0, 65_536, 2 ** 20])
      try {
        await this.#part.cut(spareBytes);
        return await this.#record("over");
      } catch (error) {
        if (!isFullDisk(error)) return false;
      }
    return false;
  }

  /** Deletes the record: there is nothing to resume from until bytes arrive again. */
  async forget(): Promise<void> {
    await this.#writing;
    if (!(await this.#isAnothers())) await unlink(this.#recordPath).catch(() => {});
  }

  async #isAnothers(): Promise<boolean> {
    const there = await readRecord(this.#recordPath);
    return there !== undefined && there.part !== this.#name;
  }

  async #record(state: "written" | "over"): Promise<boolean> {
    const of = this.#version();
    const keptBytes = this.#part.gapless();
    if (!of || keptBytes === 0 || (await this.#isAnothers())) return false;
    await this.#part.sync();
    const writer = state === "written" && { writer: thisProcess() };
    await writeRecord(this.#recordPath, { ...of, part: this.#name, keptBytes, ...writer });
    return true;
  }
}

// a killed process loses what came since; a slow disk has this time for more bytes between two records
const everyMs = 250;
