import { constants, type Stats } from "node:fs";
import { open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { createPartFile, partFileOf, type PartFile } from "./part-file.ts";
import { randomPartName } from "./part-name.ts";
import {
  isMine,
  mayRun,
  readRecord,
  thisProcess,
  writeRecord,
  type KeptVersion,
  type ResumeRecord,
} from "./resume-record.ts";

/**
 * The part file of a save that can be gone on with: what an earlier run left, when it surely
 * belongs to this version of this resource, or a new one. `undefined` while another process has the
 * record. Saves that begin at the same moment may all get one; the record is the last one's, and
 * nothing else is shared.
 */
export async function openKept(
  recordPath: string,
  wanted: KeptVersion,
): Promise<PartFile | undefined> {
  const directory = dirname(recordPath);
  const left = await readRecord(recordPath);
  if (left?.writer && mayRun(left.writer)) return undefined;
  const part =
    (left && (await takeOver(directory, left, wanted))) ??
    (await createPartFile(directory, randomPartName("kept")));
  const claim = { part: basename(part.path), keptBytes: part.gapless(), writer: thisProcess() };
  // without a record it is a save like any other
  await writeRecord(recordPath, { ...wanted, ...claim }).catch(() => {});
  return part;
}

/**
 * Opens what a record names under a new name, or deletes it when it does not belong to this version. Of all
 * processes that try, one can rename it; for the others, and for readers of the record, it is gone.
 * The prefix is hashed again in any case.
 */
async function takeOver(
  directory: string,
  left: ResumeRecord,
  wanted: KeptVersion,
): Promise<PartFile | undefined> {
  const path = join(directory, randomPartName("kept"));
  try {
    await rename(join(directory, left.part), path);
  } catch {
    return undefined;
  }
  const { O_RDWR, O_NOFOLLOW } = constants;
  const handle = await open(path, O_RDWR | O_NOFOLLOW).catch(() => undefined);
  try {
    if (handle && fits(left, wanted, await handle.stat())) {
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
