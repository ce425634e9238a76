import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { SluiceError } from "@sluice/core";
import { chainLine } from "./audit-chain.ts";
import { noteHead } from "./audit-head.ts";
import type { AuditRecord } from "./audit-record.ts";
import { AuditRoom, isFull } from "./audit-room.ts";
import type { AuditFile } from "./audit-options.ts";
import { followRotation, openChain } from "./open-chain.ts";
import { syncFolder } from "./plain-file.ts";

/** Options of {@link openAuditFile}: the file by its path, or a server by its name. */
export type AuditFileOptions = (
  | {
      /** The file; made when it is not there, mode 0600. Beside it lie `<path>.head` and `<path>.reserve`. */
      readonly path: string;
      readonly name?: never;
    }
  | {
      /**
       * Any text that no other server of this user has. The file is `sluice/audit/<name>.log`, with its
       * folder, below `$XDG_STATE_HOME`, by default `~/.local/state`; on Windows `%LOCALAPPDATA%`.
       */
      readonly name: string;
      readonly path?: never;
    }
) &
  AuditFileSettings;

interface AuditFileSettings {
  /**
   * `always`: a record counts as kept when the disk has it; records that come together share one
   * `fdatasync`. `never`: when the system has it, which a power cut can lose. Default `always`.
   */
  readonly sync?: "always" | "never";
  /**
   * Bytes that `<path>.reserve` holds on the disk for the time when it is full: then refusals are only counted, and the
   * records without which nothing is sent take this room. 0 holds none. Default 1 MiB, which is some 3,000 records.
   */
  readonly reserveBytes?: number;
  /** Gets a sentence when the disk is full, and when it has room again. Default: `console.warn`. */
  readonly onWarning?: (message: string) => void;
}

/**
 * Opens a file of JSON lines in which each names the hash of the one before it, and continues where an earlier
 * process ended. A half line that a crash left is cut off, and a line says so. When the file is renamed or emptied,
 * the next record begins a new one that continues the chain. One process at a time writes a file.
 *
 * Rejects with `corrupt` if the file there has no chain, or is not the one whose head was kept: check it with `sluice
 * audit verify` and move it away; with `unsupported` if it has a format of another version. Also for a link in place of one of the files, and with a `RangeError` for
 * `reserveBytes` that is not a whole number from 0.
 */
export async function openAuditFile(options: AuditFileOptions): Promise<AuditFile> {
  const {
    sync = "always",
    reserveBytes = 2 ** 20,
    // oxlint-disable-next-line no-console -- the documented default
    onWarning = (message) => console.warn(`sluice: ${message}`),
  } = options;
  if (!Number.isSafeInteger(reserveBytes) || reserveBytes < 0)
    throw new RangeError("openAuditFile: reserveBytes must be a whole number from 0");
  const path = options.path ?? (await makePlace(options.name));
  const noting = { sync: sync === "always" };
  let chain = await openChain(path);
  const room = await AuditRoom.open({ path, bytes: reserveBytes, onWarning }).catch(
    async (error: unknown) => {
      await chain.file.close();
      throw error;
    },
  );
  let queue: QueuedRecord[] = [];
  let running: Promise<void> | undefined;
  let closed = false;
  let woken: (() => void) | undefined;

  async function write(batch: readonly QueuedRecord[]): Promise<void> {
    chain = await followRotation(path, chain);
    let { head } = chain;
    let text = "";
    const notes = [...chain.notes, ...room.notes];
    for (const content of [...notes, ...batch.map(({ record }) => record)]) {
      const line = chainLine(head, content);
      text += `${line.text}\n`;
      head = line.head;
    }
    const bytes = Buffer.from(text);
    // when this process dies before the next note, a new file goes on behind these lines, not beside them
    await noteHead(path, { kept: chain.head, announced: head }, noting);
    try {
      await chain.file.appendFile(bytes);
      // together, for the disk takes as long for both as for one
      if (noting.sync) await Promise.all([syncFolder(path), chain.file.datasync()]);
    } catch (error) {
      // whatever part of it arrived must not stand between this line and the next
      await chain.file.truncate(chain.size).catch(() => {});
      throw error;
    }
    chain = { ...chain, head, size: chain.size + bytes.length, notes: [] };
    room.clearNotes();
  }

  /** Writes the rest of a batch to a full disk, with the reserved room. */
  async function writeWithin(batch: readonly QueuedRecord[]): Promise<void> {
    const needed = batch.filter(({ record }) => room.takes(record));
    if (needed.length === 0) return;
    try {
      await write(needed);
    } catch (error) {
      if (!isFull(error) || !(await room.release())) throw error;
      await writeWithin(needed);
    }
  }

  /** Waits a moment for the next record, not to hold it back with a note that it would replace. */
  function nextRecord(): Promise<void> {
    if (queue.length > 0 || closed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(wake, idleMs);
      function wake(): void {
        clearTimeout(timer);
        woken = undefined;
        resolve();
      }
      woken = wake;
    });
  }

  async function drain(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue;
      queue = [];
      try {
        await writeWithin(batch);
        for (const { resolve } of batch) resolve();
        await room.refill();
        await nextRecord();
        // the next batch notes it with its own announcement
        if (queue.length > 0) continue;
        await noteHead(path, { kept: chain.head }, noting);
        if (noting.sync) await syncFolder(path);
      } catch (cause) {
        const error = new SluiceError("unavailable", `audit: cannot write to ${path}`, { cause });
        for (const { reject } of batch) reject(error);
      }
    }
    running = undefined;
  }

  return {
    path,
    required: true,
    sink: (record) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(new SluiceError("unavailable", `audit: ${path} is closed`));
        if (queue.length >= maxWaiting)
          return reject(new SluiceError("unavailable", `audit: ${path} is too slow`));
        queue.push({ record, resolve, reject });
        woken?.();
        running ??= drain();
      }),
    async close() {
      if (closed) return running;
      closed = true;
      woken?.();
      await running;
      await Promise.all([chain.file.close(), room.close()]);
    },
  };
}

async function makePlace(name: string): Promise<string> {
  const path = auditPathOf(name);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  return path;
}

/**
 * Where the trail of a server lies that has a name and no place: in the folder for what programs keep
 * of their runs, `$XDG_STATE_HOME` (XDG Base Directory Specification) or `%LOCALAPPDATA%`.
 */
function auditPathOf(name: string): string {
  return join(stateFolder(process.env), "sluice", "audit", `${encodeURIComponent(name)}.log`);
}

function stateFolder({ XDG_STATE_HOME: xdg, LOCALAPPDATA: local }: NodeJS.ProcessEnv): string {
  // the specification has relative paths ignored
  if (xdg !== undefined && isAbsolute(xdg)) return xdg;
  if (process.platform === "win32" && local !== undefined && isAbsolute(local)) return local;
  return join(homedir(), ".local", "state");
}

interface QueuedRecord {
  readonly record: AuditRecord;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const maxWaiting = 10_000;
/** A chain is idle when no record came for so long. */
const idleMs = 20;
