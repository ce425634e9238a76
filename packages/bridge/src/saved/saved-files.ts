import { createHash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { lstat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
import { holdFolder } from "@sluice/storage-fs/internal";
import { createRoom, type SharedRoom } from "../spool/files/room.ts";
import {
  type NamedRecord,
  type SaveRecord,
  type SaveRecords,
  openSaveRecords,
  memoryRecords,
} from "./save-records.ts";
import { openSharedSpool, type SpoolFolder } from "../spool/files/spool-folder.ts";

interface KeptSave extends NamedRecord {
  /** Absolute. */
  readonly path: string;
  /** Another program has written it since: it is the user's. */
  readonly isChanged: boolean;
}

interface SavedFilesOptions {
  /** Absolute, without links. */
  readonly root: string;
  readonly records: SaveRecords;
  /** Maximum bytes of all files of bridges in the folder. */
  readonly maxBytes: number;
  /** Unchanged files are removed after it, in milliseconds. Undefined: none is ever removed. */
  readonly maxAgeMs: number | undefined;
  /** Bytes of other whole files that count. */
  readonly otherBytes: () => Promise<number>;
}

/** What bridges saved to one folder. */
export interface SavedFiles {
  /** Files that are there, the newest first. */
  list(): Promise<KeptSave[]>;
  /** Room for a file that is written there. Rejects with `no_space`, and says what may be deleted. */
  readonly room: SharedRoom;
  note(record: SaveRecord): Promise<void>;
  /** Removes unchanged files that are too old, where there is an age. */
  clean(): Promise<void>;
}

/** Knows the saves of a folder by their records. Files that are gone or changed count no more, and changed ones stay. */
function createSavedFiles(options: SavedFilesOptions): SavedFiles {
  const { root, records, maxBytes, maxAgeMs, otherBytes } = options;

  async function list(): Promise<KeptSave[]> {
    const keptSaves: KeptSave[] = [];
    for (const { name, record } of await records.list()) {
      const path = join(root, ...record.key.split("/"));
      const info = await lstat(path).catch(faultCode);
      if (typeof info === "string") {
        // a disk that is away, or a folder that cannot be read, may come back
        if (absent.has(info)) await records.remove(name);
      } else if (info.isFile())
        keptSaves.push({ name, record, path, isChanged: !isSame(info, record) });
      else await records.remove(name);
    }
    return keptSaves.toSorted((a, b) => (a.name < b.name ? 1 : -1));
  }

  return {
    list,
    room: createRoom({
      maxBytes,
      records,
      async wholeBytes() {
        const unchanged = (await list()).filter(({ isChanged }) => !isChanged);
        return unchanged.reduce((sum, { record }) => sum + record.size, await otherBytes());
      },
      fault: async (wanted, free) => fullFault(wanted, free, maxBytes, await list()),
    }),
    note: (record) => records.add(record),
    async clean() {
      if (maxAgeMs === undefined) return;
      for (const save of await list())
        if (!save.isChanged && Date.now() - save.record.savedMs > maxAgeMs) {
          await removeUnchanged(root, save.record).catch(() => {});
          await records.remove(save.name);
        }
    },
  };
}

const absent: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR"]);

function faultCode(error: NodeJS.ErrnoException): string {
  return error.code ?? "";
}

function isSame(info: Stats, { size, modifiedMs }: SaveRecord): boolean {
  return info.isFile() && info.size === size && info.mtimeMs === modifiedMs;
}

/** Removes a file that still has the bytes that were saved, in the folder that it was saved to. */
async function removeUnchanged(root: string, record: SaveRecord): Promise<void> {
  const names = record.key.split("/");
  const folder = await holdFolder(root, names.slice(0, -1), { make: false });
  try {
    const path = folder.inside + (names.at(-1) as string);
    const handle = await openHandle(
      path,
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    try {
      if (!isSame(await handle.stat(), record)) return;
      const hash = createHash("sha256");
      for await (const chunk of handle.createReadStream({ autoClose: false }))
        hash.update(chunk as Buffer);
      if (hash.digest("hex") !== record.sha256 || !isSame(await lstat(path), record)) return;
    } finally {
      await handle.close();
    }
    if (await folder.isInPlace()) await unlink(path);
  } finally {
    await folder.close();
  }
}

function fullFault(
  neededBytes: number,
  free: number,
  maxBytes: number,
  saves: readonly KeptSave[],
): SluiceError {
  const [largest] = saves.toSorted((a, b) => b.record.size - a.record.size);
  const example = largest ? `, such as ${largest.path} (${largest.record.size} bytes)` : "";
  const neededTotal = Math.ceil((maxBytes - free + neededBytes) / 2 ** 20);
  return new SluiceError(
    "no_space",
    `bridge: files from servers may have ${maxBytes} bytes together in this folder; ${free} are free, and this one needs ${neededBytes}. Ask the user to delete or move some of list_saved${example}, or to start the bridge with --max-total ${neededTotal}M or more`,
  );
}

/** How much a folder may hold, and for how long. */
export interface SavingBounds {
  readonly spool?: boolean | undefined;
  readonly maxTotalBytes?: number | undefined;
  readonly stateFolder?: string | undefined;
  readonly maxSavedAgeMs?: number | undefined;
}

/** What bridges wrote to a folder: saved files, and large results. */
export interface Saving {
  readonly saved: SavedFiles;
  readonly spoolFolder: SpoolFolder | undefined;
}

/** Opens both for the folder `root`: they share one bound of bytes. Cleans what is too old. */
export async function openSaving(
  root: string,
  maxAgeMs: number,
  { spool = true, maxTotalBytes = 100 * 2 ** 30, stateFolder, maxSavedAgeMs }: SavingBounds,
): Promise<Saving> {
  // a user without a place for state has the bounds of each process
  const stored = stateFolder && (await openSaveRecords(stateFolder, root).catch(() => undefined));
  const records = stored || memoryRecords();
  let spoolFolder: SpoolFolder | undefined;
  const saved = createSavedFiles({
    root,
    records,
    maxBytes: maxTotalBytes,
    maxAgeMs: maxSavedAgeMs,
    otherBytes: async () => (await spoolFolder?.bytes()) ?? 0,
  });
  await saved.clean();
  if (spool) spoolFolder = await openSharedSpool(root, maxAgeMs, saved.room);
  return { saved, spoolFolder };
}
