import { createHash, randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { open, opendir, rename, stat, unlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { isCount, isNumber, isOptional, isShaped, isText } from "../calls/shape.ts";
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
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(() => undefined);
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
    const ageMs = info && isMine(info) ? now - info.mtimeMs : 0;
    const isOver =
      ageMs > (kind[1] ? 1 : 7) * dayMs || (writerOfPart(name) === "ended" && ageMs > 0);
    if (isOver) await unlink(path).catch(() => {});
  }
}

/** When each recent folder was last looked into. */
const sweptAt = new Map<string, number>();
const maxSwept = 256;
const sweepEveryMs = 60_000;
const dayMs = 86_400_000;
const maxLooked = 10_000;
