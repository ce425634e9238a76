import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod/mini";
import { randomPartName, writerOfPart } from "@sluice/client/internal";
import { diskFault } from "../confine/paths.ts";
import { type ReservationRecords, createMemoryReservations } from "../spool/files/room.ts";

const recordSchema = z.object({
  key: z.string(),
  size: z.int().check(z.nonnegative()),
  sha256: z.string(),
  uri: z.string(),
  savedMs: z.number(),
  modifiedMs: z.number(),
});

/** What is remembered of a file that a bridge saved. */
export interface SaveRecord {
  /** Path relative to the folder, with `/`. */
  readonly key: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** The resource or link that it came from. */
  readonly uri: string;
  /** When it was saved, in milliseconds since 1970. */
  readonly savedMs: number;
  /** Time of the file's last change, in milliseconds since 1970. */
  readonly modifiedMs: number;
}

/** A record under its name, which no other has. */
export interface NamedRecord {
  readonly name: string;
  readonly record: SaveRecord;
}

/**
 * Records of the saves to one folder, by all bridges of a user: one small file each, so that processes need no lock. Files
 * under way have one that says how many bytes they may take.
 */
export interface SaveRecords extends ReservationRecords {
  list(): Promise<NamedRecord[]>;
  add(record: SaveRecord): Promise<void>;
  remove(name: string): Promise<void>;
}

/** Keeps the records of the folder `root` below `stateFolder`, which is made where it is missing. */
export async function openSaveRecords(stateFolder: string, root: string): Promise<SaveRecords> {
  const name = createHash("sha256").update(root).digest("hex").slice(0, 32);
  const folder = join(stateFolder, "saved", name);
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((error) => {
    throw diskFault(error, folder);
  });
  /** Files do not change once they are there. */
  const recordCache = new Map<string, SaveRecord>();
  /** Reservations of this process. */
  const ownReservations = new Map<string, number>();

  async function write(fileName: string, text: string): Promise<void> {
    const part = join(folder, randomPartName("kept"));
    try {
      await writeFile(part, text, { flag: "wx", mode: 0o600 });
      await rename(part, join(folder, fileName));
    } catch (error) {
      await unlink(part).catch(() => {});
      throw diskFault(error, folder);
    }
  }

  async function isAbandoned(reservation: string): Promise<boolean> {
    if (writerOfPart(reservation) === "ended") return true;
    // of a machine that has another name by now, or a process whose id another one got
    const info = await stat(join(folder, reservation)).catch(() => undefined);
    return info !== undefined && Date.now() - info.mtimeMs > abandonedMs;
  }

  const drop = (fileName: string): Promise<void> => unlink(join(folder, fileName)).catch(() => {});

  return {
    async list() {
      const names = (await readdir(folder)).filter((each) => recordName.test(each)).toSorted();
      // beyond that, the oldest are forgotten
      for (const oldest of names.splice(0, names.length - maxRecords)) await drop(oldest);
      const present = new Set(names);
      for (const each of recordCache.keys()) if (!present.has(each)) recordCache.delete(each);
      for (const each of names) {
        if (recordCache.has(each)) continue;
        const record = await readRecord(join(folder, each));
        if (record) recordCache.set(each, record);
      }
      return [...recordCache].map(([each, record]) => ({ name: each, record }));
    },
    add: (record) => write(`${newName(record.savedMs)}.json`, JSON.stringify(record)),
    async remove(fileName) {
      recordCache.delete(fileName);
      await drop(fileName);
    },
    async reservedBytes() {
      let bytes = 0;
      for (const each of await readdir(folder)) {
        if (!reservationName.test(each)) continue;
        const ownBytes = ownReservations.get(each);
        if (ownBytes !== undefined) bytes += ownBytes;
        else if (await isAbandoned(each)) await drop(each);
        else bytes += Number(await readFile(join(folder, each), "utf8").catch(() => "0")) || 0;
      }
      return bytes;
    },
    reserve() {
      const reservation = randomPartName();
      return {
        async resize(bytes) {
          await write(reservation, String(bytes));
          ownReservations.set(reservation, bytes);
        },
        release() {
          ownReservations.delete(reservation);
          return drop(reservation);
        },
      };
    },
  };
}

/** No save takes longer without a step that enlarges its reservation. */
const abandonedMs = 24 * 3_600_000;
/** Files that are remembered of one folder. */
const maxRecords = 10_000;
const recordName = /^\d{15}-[0-9a-f]{8}\.json$/;
const reservationName = /^\.[0-9a-f]{32}\.part$/;

/** Names sort by time. */
function newName(savedMs: number): string {
  return `${String(Math.trunc(savedMs)).padStart(15, "0")}-${randomBytes(4).toString("hex")}`;
}

async function readRecord(path: string): Promise<SaveRecord | undefined> {
  try {
    const parsed = recordSchema.safeParse(JSON.parse(await readFile(path, "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** Records of this process alone, for programs that name no folder for them. */
export function memoryRecords(): SaveRecords {
  const records = new Map<string, SaveRecord>();
  let count = 0;
  return {
    ...createMemoryReservations(),
    list: async () => [...records].map(([name, record]) => ({ name, record })),
    async add(record) {
      records.set(String(++count).padStart(15, "0"), record);
      for (const oldest of records.keys()) if (records.size > maxRecords) records.delete(oldest);
    },
    remove: async (name) => void records.delete(name),
  };
}
