import { constants, createReadStream } from "node:fs";
import { stat, type FileHandle } from "node:fs/promises";
import { createInterface } from "node:readline";
import { SluiceError } from "@sluice/core";
import {
  chainStart,
  ensureFormat,
  formatHead,
  openedEvent,
  readChainLine,
  unnotedEvent,
  type ChainHead,
  type ReadLine,
} from "./audit-chain.ts";
import { headPathOf, readHead, type NotedHead } from "./audit-head.ts";
import { openPlain, syncFolder } from "./plain-file.ts";

/** A chained file that is open for its next line. */
export interface OpenChain {
  readonly file: FileHandle;
  readonly head: ChainHead;
  readonly size: number;
  /** Lines to write before the next record. */
  readonly notes: readonly object[];
}

/**
 * Opens the file of that name and finds where its chain stands. Rejects with `corrupt` for a file that has no chain, and with
 * `unsupported` for one in a format that this version does not know.
 */
export async function openChain(path: string): Promise<OpenChain> {
  const file = await openPlain(path, appending);
  try {
    const { noted, trouble } = await readHead(path);
    if (trouble === "is not a regular file")
      throw new SluiceError("corrupt", `audit: ${headPathOf(path)} ${trouble}; move it away`);
    const knownHead = noted?.kept;
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
    ensureFormat(await firstLine(path), path);
    // going on would replace the noted head, the only trace of what was there
    if (knownHead && knownHead.seq <= line.seq && !(await leadsThrough(path, knownHead, line)))
      throw new SluiceError(
        "corrupt",
        `audit: ${path} is not the file whose head was noted; check it with "sluice audit verify" and move it away`,
      );
    const notes: object[] = [];
    // what was cut off while the note was gone, or was an older one, is not seen to be missing
    if ((noted?.announced ?? knownHead ?? chainStart).seq < line.seq) notes.push(unnotedEvent);
    if (end < size) {
      await file.truncate(end);
      notes.push({ event: "recovered", droppedBytes: size - end });
    }
    // the chain continues from the last certain record, so that a missing one shows
    const isShort = knownHead !== undefined && knownHead.seq > line.seq;
    return { file, size: end, head: isShort ? knownHead : line, notes };
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

async function firstLine(path: string): Promise<ReadLine | undefined> {
  const input = createReadStream(path);
  try {
    for await (const text of createInterface({ input })) return readChainLine(text);
    return undefined;
  } finally {
    input.destroy();
  }
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
export async function followRotation(path: string, chain: OpenChain): Promise<OpenChain> {
  const { file, size, head } = chain;
  const [named, opened] = await Promise.all([stat(path).catch(() => undefined), file.stat()]);
  if (named?.ino !== opened.ino || named.dev !== opened.dev) {
    const fresh = await openPlain(path, appending);
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

const { O_APPEND, O_CREAT, O_RDWR } = constants;
const appending = O_RDWR | O_APPEND | O_CREAT;
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

async function lastLine(file: FileHandle, size: number): Promise<LastLine> {
  const start = Math.max(0, size - maxLineBytes);
  const bytes = Buffer.alloc(size - start);
  await file.read(bytes, 0, bytes.length, start);
  const end = bytes.lastIndexOf("\n");
  if (end < 0) return { end: 0, isTorn: start === 0 && isTornStart(bytes) };
  const begin = end === 0 ? 0 : bytes.lastIndexOf("\n", end - 1) + 1;
  return { text: bytes.toString("utf8", begin, end), end: start + end + 1 };
}
