import { createHash, randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { open, opendir, rename, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod/mini";
import { partFileOf, type PartFile } from "./part-file.ts";

/** One version of one resource. */
export interface KeptVersion {
  readonly uri: string;
  /** Strong, with quotes. */
  readonly etag: string;
  readonly size: number;
}

/** What is remembered of an interrupted download, in a small file beside its bytes. */
export interface ResumeRecord extends KeptVersion {
  /** Bytes at the beginning that are on the disk without a gap. */
  readonly keptBytes: number;
  /** The process that writes; while it lives nobody else does. Absent when nobody writes any more. */
  readonly pid?: number;
}

const recordSchema = z.object({
  uri: z.string(),
  etag: z.string(),
  size: z.int(),
  keptBytes: z.int().check(z.nonnegative()),
  pid: z.optional(z.int().check(z.positive())),
});

// part files of this process that are being written
const busy = new Set<string>();

/** The name under which an interrupted download of a resource to a file is found again. */
export function keptName(uri: string, directory: string, fileName: string): string {
  const text = JSON.stringify([uri, directory, fileName]);
  return `.${createHash("sha256").update(text).digest("hex").slice(0, 32)}.kept`;
}

/** A kept name that is this process's own until `release`. */
export interface KeptClaim {
  /** What an earlier run left under it. */
  readonly left: ResumeRecord | undefined;
  readonly release: () => void;
}

/**
 * Claims a kept name for this process; `undefined` when it is claimed, or cannot be. The record is
 * the claim: it is there before the first byte, and only one process at a time can create it.
 */
export async function claimKept(path: string, wanted: KeptVersion): Promise<KeptClaim | undefined> {
  if (busy.has(path)) return undefined;
  busy.add(path);
  try {
    const left = await takeRecord(path);
    const claim = { ...(left ?? { ...wanted, keptBytes: 0 }), pid: process.pid };
    await writeFile(`${path}.json`, JSON.stringify(claim), { flag: "wx", mode: 0o600 });
    return { left, release: () => void busy.delete(path) };
  } catch {
    busy.delete(path);
    return undefined;
  }
}

/** Takes the record of an earlier run away, which one process can do; throws when another one writes. */
async function takeRecord(path: string): Promise<ResumeRecord | undefined> {
  ensureIdle(await readRecord(`${path}.json`));
  const taken = `${path}.${randomBytes(4).toString("hex")}`;
  try {
    await rename(`${path}.json`, taken);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const record = await readRecord(taken);
  try {
    ensureIdle(record);
  } catch (error) {
    // somebody claimed it between the two looks
    await rename(taken, `${path}.json`);
    throw error;
  }
  await unlink(taken);
  return record;
}

function ensureIdle(record: ResumeRecord | undefined): void {
  if (record?.pid !== undefined && record.pid !== process.pid && isAlive(record.pid))
    throw new Error(`process ${record.pid} writes it`);
}

/**
 * Opens what an earlier run left, when it surely belongs to this version of this resource;
 * otherwise deletes it. The prefix is hashed again in any case.
 */
export async function reopenKept(
  path: string,
  left: ResumeRecord | undefined,
  wanted: KeptVersion,
): Promise<PartFile | undefined> {
  const { O_RDWR, O_NOFOLLOW } = constants;
  const handle = await open(path, O_RDWR | O_NOFOLLOW).catch(() => undefined);
  try {
    if (handle && left && fits(left, wanted, await handle.stat())) {
      await handle.truncate(left.keptBytes);
      return partFileOf(handle, path, left.keptBytes);
    }
  } catch {
    // what cannot be looked at or cut is not gone on from
  }
  await handle?.close();
  await unlink(path).catch(() => {});
  return undefined;
}

function fits(record: ResumeRecord, wanted: KeptVersion, info: Stats): boolean {
  const { uri, etag, size, keptBytes } = record;
  const same = uri === wanted.uri && etag === wanted.etag && size === wanted.size;
  const within = keptBytes > 0 && keptBytes <= size && keptBytes <= info.size;
  return same && within && isMine(info) && info.nlink === 1;
}

function isMine(info: Stats): boolean {
  return info.isFile() && info.uid === (process.getuid?.() ?? info.uid);
}

/** Writes the record beside a part file, whole or not at all. */
export async function writeRecord(path: string, record: ResumeRecord): Promise<void> {
  const fresh = `${path}.${randomBytes(4).toString("hex")}`;
  await writeFile(fresh, JSON.stringify(record), { flag: "wx", mode: 0o600 });
  await rename(fresh, `${path}.json`);
}

/** Deletes the record; the part file is no longer resumable. */
export async function forgetKept(path: string): Promise<void> {
  await unlink(`${path}.json`).catch(() => {});
}

/** A record that this user wrote; whatever else lies there, as a pipe or an endless device, is none. */
async function readRecord(path: string): Promise<ResumeRecord | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(() => undefined);
  try {
    const info = await handle?.stat();
    if (!handle || !info || !isMine(info) || info.size > mostRecordBytes) return undefined;
    const parsed = recordSchema.safeParse(JSON.parse(await handle.readFile("utf8")));
    return parsed.success ? (parsed.data as ResumeRecord) : undefined;
  } catch {
    return undefined;
  } finally {
    await handle?.close();
  }
}

const mostRecordBytes = 65_536;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Deletes what crashed runs left in a folder: part files after a day, resumable ones after a week. */
export async function sweepOrphans(directory: string, now: number): Promise<void> {
  const entries = await opendir(directory).catch(() => undefined);
  let looked = 0;
  for await (const { name } of entries ?? []) {
    if (++looked > mostLooked) break;
    const kind = /^\.[0-9a-f]{32}\.(?:(part)|kept(?:\.json|\.[0-9a-f]{8})?)$/.exec(name);
    if (!kind) continue;
    const path = join(directory, name);
    const info = await stat(path).catch(() => undefined);
    const ageMs = info && isMine(info) ? now - info.mtimeMs : 0;
    if (ageMs > (kind[1] ? 1 : 7) * dayMs) await unlink(path).catch(() => {});
  }
}

const dayMs = 86_400_000;
const mostLooked = 10_000;
