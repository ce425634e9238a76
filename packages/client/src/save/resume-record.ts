import { createHash, randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { opendir, rename, stat, unlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, join } from "node:path";
import { openHandle } from "@sluice/core/internal/node";
import { isCount, isNumber, isOptional, isShaped, isText } from "../calls/shape.ts";
import { isFullDisk } from "./disk-error.ts";
import type { PartFile } from "./part-file.ts";
import { isRunning, writerOfPart } from "./part-name.ts";

/** One version of one resource. */
export interface KeptVersion {
  readonly uri: string;
  /** Strong, with quotes. */
  readonly etag: string;
  readonly size: number;
}

/** The record of a resumable download, in a small file next to its bytes. */
export interface ResumeRecord extends KeptVersion {
  /** Name of the part file in the same folder. No two saves ever write under the same one. */
  readonly part: string;
  /** Bytes at the beginning that are on the disk without a gap. */
  readonly keptBytes: number;
  /** The process that writes the part file. Absent when none does. */
  readonly writer?: Writer;
}

/** A process, distinct from an earlier one with the same id. */
interface Writer {
  readonly host: string;
  readonly pid: number;
  /** Milliseconds on the machine's monotonic clock. */
  readonly startedMs: number;
}

const isRecord = isShaped({
  uri: isText,
  etag: isText,
  size: isCount,
  part: (value: unknown): value is string => isText(value) && /^\.[0-9a-f]{32}\.kept$/.test(value),
  keptBytes: isCount,
  writer: isOptional(
    isShaped({
      host: isText,
      pid: (value: unknown): value is number => isCount(value) && value > 0,
      startedMs: isNumber,
    }),
  ),
});

/** The name of the record, next to the file, by which a download of a resource is found again. */
export function recordName(uri: string, fileName: string): string {
  const text = JSON.stringify([uri, fileName]);
  return `.${createHash("sha256").update(text).digest("hex").slice(0, 32)}.kept.json`;
}

/** A record that this user wrote; anything else there, such as a pipe or an endless device, is ignored. */
export async function readRecord(path: string): Promise<ResumeRecord | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const handle = await openHandle(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(() => undefined);
  try {
    const info = await handle?.stat();
    if (!handle || !info || !isMine(info) || info.size > maxRecordBytes) return undefined;
    const record: unknown = JSON.parse(await handle.readFile("utf8"));
    return isRecord(record) ? (record as ResumeRecord) : undefined;
  } catch {
    return undefined;
  } finally {
    await handle?.close();
  }
}

const maxRecordBytes = 65_536;

/** Writes a record atomically, over whatever is there. */
export async function writeRecord(path: string, record: ResumeRecord): Promise<void> {
  const fresh = path.replace(/json$/, randomBytes(4).toString("hex"));
  try {
    await writeFile(fresh, JSON.stringify(record), { flag: "wx", mode: 0o600 });
    await rename(fresh, path);
  } catch (error) {
    await unlink(fresh).catch(() => {});
    throw error;
  }
}

/** A file, and of this user. */
export function isMine(info: Stats): boolean {
  return info.isFile() && info.uid === (process.getuid?.() ?? info.uid);
}

/** This process, the same in all of its threads and whatever happens to the time of day. */
export function thisProcess(): Writer {
  const nowMs = Number(process.hrtime.bigint() / 1_000_000n);
  const startedMs = Math.round(nowMs - process.uptime() * 1_000);
  return { host: hostname(), pid: process.pid, startedMs };
}

/** False if it has surely ended. Processes of another host are invisible: they may all run. */
export function mayRun({ host, pid, startedMs }: Writer): boolean {
  const self = thisProcess();
  if (host !== self.host) return true;
  if (pid === self.pid) return Math.abs(startedMs - self.startedMs) < 1_000;
  return isRunning(pid);
}

/**
 * Deletes what crashed runs left in a folder: part files at once if their process has surely ended, else after a day,
 * resumable ones after a week. Looks into a folder once a minute: to look costs more the more files were saved to it.
 */
export async function sweepOrphans(directory: string, now: number): Promise<void> {
  const sweptMs = sweptAt.get(directory) ?? Number.NEGATIVE_INFINITY;
  if (now >= sweptMs && now - sweptMs < sweepEveryMs) return;
  sweptAt.delete(directory);
  sweptAt.set(directory, now);
  if (sweptAt.size > maxSwept) sweptAt.delete(sweptAt.keys().next().value as string);
  const entries = await opendir(directory).catch(() => undefined);
  let looked = 0;
  for await (const { name } of entries ?? []) {
    if (++looked > maxLooked) break;
    const kind = /^\.[0-9a-f]{32}\.(?:(part)|kept(?:\.json|\.[0-9a-f]{8})?)$/.exec(name);
    if (!kind) continue;
    const path = join(directory, name);
    const info = await stat(path).catch(() => undefined);
    // one that is about to get its name has the time of the server's file
    const ageMs = info && isMine(info) ? now - Math.max(info.mtimeMs, info.ctimeMs) : 0;
    const writer = writerOfPart(name);
    const isOld = ageMs > (kind[1] ? 1 : 7) * dayMs && writer !== "running";
    const isOver = isOld || (kind[1] !== undefined && writer === "ended" && ageMs > 0);
    if (isOver) await unlink(path).catch(() => {});
  }
}

/** When each recent folder was last looked into. */
const sweptAt = new Map<string, number>();
const maxSwept = 256;
const sweepEveryMs = 60_000;
const dayMs = 86_400_000;
const maxLooked = 10_000;

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
