import { createReadStream } from "node:fs";
import { mkdir, open, stat, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { SluiceError } from "@sluice/core";
import type { AuditOptions, AuditRecord, AuditSink } from "./audit.ts";
import {
  chainLine,
  chainStart,
  formatHead,
  openedEvent,
  readChainLine,
  type ChainHead,
} from "./audit-chain.ts";
import { auditPathOf } from "./audit-place.ts";
import { noteHead, readHead, type NotedHead } from "./audit-head.ts";

/** Options of {@link createAuditFile}: the file by its path, or a server by its name. */
export type AuditFileOptions = (
  | {
      /** The file; made when it is not there, mode 0600. Beside it lies `<path>.head`. */
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
}

/** A chained file that records go to: what `audit` of `createSluice` takes. */
export interface AuditFile extends AuditOptions {
  readonly path: string;
  /** Nothing is sent, shown or issued without its record. To keep what can be kept, pass the `sink` alone. */
  readonly required: true;
  /** Resolves when the record is kept, rejects when it is not. Records are kept in the order of the calls. */
  readonly sink: AuditSink;
  /** Waits for what is under way and closes the file. Idempotent. */
  readonly close: () => Promise<void>;
}

/**
 * Opens a file of JSON lines in which each names the hash of the one before it, and goes on where an
 * earlier process ended. A half line that a crash left is cut off, and a line says so. When the file
 * is renamed or emptied, the next record begins a new one that continues the chain. One process at a time writes a file.
 *
 * Rejects with `corrupt` when what is there is no such file, or not the one whose head was kept: check it with `sluice audit verify` and move it away.
 */
export async function createAuditFile(options: AuditFileOptions): Promise<AuditFile> {
  const { sync = "always" } = options;
  const path = options.path ?? (await makePlace(options.name));
  let chain = await openChain(path);
  let queue: Waiting[] = [];
  let running: Promise<void> | undefined;
  let closed = false;

  async function write(batch: readonly Waiting[]): Promise<void> {
    chain = await followRotation(path, chain);
    let { head } = chain;
    let text = "";
    for (const content of [...chain.notes, ...batch.map(({ record }) => record)]) {
      const line = chainLine(head, content);
      text += `${line.text}\n`;
      head = line.head;
    }
    const bytes = Buffer.from(text);
    // when this process dies before the next note, a new file goes on behind these lines, not beside them
    await noteHead(path, { kept: chain.head, announced: head });
    try {
      await chain.file.appendFile(bytes);
      if (sync === "always") await chain.file.datasync();
    } catch (error) {
      // whatever part of it arrived must not stand between this line and the next
      await chain.file.truncate(chain.size).catch(() => {});
      throw error;
    }
    chain = { ...chain, head, size: chain.size + bytes.length, notes: [] };
    await noteHead(path, { kept: head });
  }

  async function drain(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue;
      queue = [];
      try {
        await write(batch);
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        const error = new SluiceError("unavailable", `audit: ${path} takes no records`, { cause });
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
        running ??= drain();
      }),
    async close() {
      if (closed) return running;
      closed = true;
      await running;
      await chain.file.close();
    },
  };
}

async function makePlace(name: string): Promise<string> {
  const path = auditPathOf(name);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  return path;
}

interface Waiting {
  readonly record: AuditRecord;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const maxWaiting = 10_000;

interface OpenChain {
  readonly file: FileHandle;
  readonly head: ChainHead;
  /** Bytes that are in the file. */
  readonly size: number;
  /** Lines to write before the next record. */
  readonly notes: readonly object[];
}

async function openChain(path: string): Promise<OpenChain> {
  const file = await open(path, "a+", 0o600);
  try {
    const noted = await readHead(path);
    const known = noted?.kept;
    const { size } = await file.stat();
    if (size === 0) {
      await syncFolder(path);
      return { file, size, ...beginning(noted) };
    }
    const { text, end, isTorn } = await lastLine(file, size);
    if (isTorn) {
      await file.truncate(0);
      const { head, notes } = beginning(noted);
      const recovered = { event: "recovered", droppedBytes: size };
      return { file, size: 0, head, notes: [...notes, recovered] };
    }
    const line = text === undefined ? undefined : readChainLine(text);
    if (!line?.isGenuine)
      throw new SluiceError(
        "corrupt",
        `audit: the last line of ${path} is not one of a chain; check it with "sluice audit verify" and move it away`,
      );
    // going on would replace the noted head, the only trace of what was there
    if (known && known.seq <= line.seq && !(await leadsThrough(path, known, line)))
      throw new SluiceError(
        "corrupt",
        `audit: ${path} is not the file whose head was noted; check it with "sluice audit verify" and move it away`,
      );
    const notes: object[] = [];
    if (end < size) {
      await file.truncate(end);
      notes.push({ event: "recovered", droppedBytes: size - end });
    }
    // the chain goes on from what is known to have been written: what was cut off is then seen to be missing
    const isShort = known !== undefined && known.seq > line.seq;
    return { file, size: end, head: isShort ? known : line, notes };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * What a new file goes on from: the lines that were announced last, for they may be there. Its first
 * line names what is there for certain; the verifier takes either.
 */
function beginning(noted: NotedHead | undefined): Pick<OpenChain, "head" | "notes"> {
  const { kept = chainStart, announced = kept } = noted ?? {};
  if (announced === kept) return { head: kept, notes: [openedEvent] };
  return { head: announced, notes: [{ ...openedEvent, kept: formatHead(kept) }] };
}

/** True when a file that ends with `last` has the line that was noted, or goes on from it. */
async function leadsThrough(path: string, noted: ChainHead, last: ChainHead): Promise<boolean> {
  if (noted.seq === last.seq) return noted.hash === last.hash;
  // a crash came before the head of the last lines was kept: seldom, so all of the file may be read
  const input = createReadStream(path);
  try {
    for await (const text of createInterface({ input })) {
      const line = readChainLine(text);
      if (line?.seq === noted.seq) return line.hash === noted.hash;
      if (line?.seq === noted.seq + 1) return line.prev === noted.hash;
    }
    return false;
  } finally {
    input.destroy();
  }
}

/** The chain as it is, or in a new file when the one that is open is no longer the one of that name. */
async function followRotation(path: string, chain: OpenChain): Promise<OpenChain> {
  const { file, size, head } = chain;
  const [named, opened] = await Promise.all([stat(path).catch(() => undefined), file.stat()]);
  if (named?.ino !== opened.ino || named.dev !== opened.dev) {
    const fresh = await open(path, "a+", 0o600);
    const { size: there } = await fresh.stat();
    if (there > 0) {
      await fresh.close();
      throw foreign(path);
    }
    await file.close();
    await syncFolder(path);
    return { file: fresh, size: 0, head, notes: [openedEvent] };
  }
  if (opened.size > size) throw foreign(path);
  if (opened.size === 0 && size > 0) return { ...chain, size: 0, notes: [openedEvent] };
  return { ...chain, size: opened.size };
}

function foreign(path: string): Error {
  return new Error(`${path} has lines that this process did not write; give each process its own`);
}

const maxLineBytes = 1024 * 1024;

/**
 * How the first line of a chained file begins, as far as it got; some file systems leave zeros for
 * what did not get to the disk. Nothing else is ever cut off.
 */
function isTornStart(bytes: Buffer): boolean {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  const text = bytes.toString("latin1", 0, end);
  const alike = text.replace(/^(\{"seq":)\d+/, "$11");
  return '{"seq":1,"prev":"'.startsWith(alike) || /^\{"seq":1,"prev":"[0-9a-f]*(?:"|$)/.test(alike);
}

interface LastLine {
  readonly text?: string;
  /** Where it ends. */
  readonly end: number;
  /** A crash left the beginning of the first line, and nothing else. */
  readonly isTorn?: boolean;
}

/** The last whole line. */
async function lastLine(file: FileHandle, size: number): Promise<LastLine> {
  const start = Math.max(0, size - maxLineBytes);
  const bytes = Buffer.alloc(size - start);
  await file.read(bytes, 0, bytes.length, start);
  const end = bytes.lastIndexOf("\n");
  if (end < 0) return { end: 0, isTorn: start === 0 && isTornStart(bytes) };
  const begin = end === 0 ? 0 : bytes.lastIndexOf("\n", end - 1) + 1;
  return { text: bytes.toString("utf8", begin, end), end: start + end + 1 };
}

/** Makes the name of a new file durable, where folders can be synchronised. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), "r").catch(() => undefined);
  try {
    await folder?.sync();
  } catch {
    // not every platform can
  } finally {
    await folder?.close();
  }
}
