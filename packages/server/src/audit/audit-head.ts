import { constants } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { SluiceError } from "@sluice/core";
import { formatHead, parseHead, type ChainHead } from "./audit-chain.ts";
import { openPlain } from "./plain-file.ts";

/** Where a chain stands, as it is noted beside its file. */
export interface NotedHead {
  /** The file has all lines up to here. */
  readonly kept: ChainHead;
  /** Lines up to here were being written: the process that was to write them may have died before, between or after them. */
  readonly announced?: ChainHead;
}

/** The note, or the reason that it is unusable. */
export type FoundHead =
  | { readonly noted: NotedHead; readonly trouble?: never }
  | { readonly noted?: never; readonly trouble: HeadTrouble };

/** Ends a sentence that begins with the name of the file. */
type HeadTrouble = "is not there" | "is empty" | "holds no head" | "is not a regular file";

/** Looks for the note beside a file. Rejects if the system does not let it read. */
export async function readHead(path: string): Promise<FoundHead> {
  const text = await readNote(headPathOf(path)).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    if (SluiceError.is(error)) return error;
    throw error;
  });
  if (text === undefined) return { trouble: "is not there" };
  if (typeof text !== "string") return { trouble: "is not a regular file" };
  if (text === "") return { trouble: "is empty" };
  const [kept, announced] = text.split("\n").map(parseHead);
  if (!kept) return { trouble: "holds no head" };
  return { noted: { kept, ...(announced && { announced }) } };
}

/** Two heads of 80 characters; a longer text is not a note. */
const maxNoteBytes = 1_024;

async function readNote(path: string): Promise<string> {
  const file = await openPlain(path, constants.O_RDONLY);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxNoteBytes), 0, maxNoteBytes, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * Replaces the note at once: readers see the one before or this one, whole. With `sync` what it says is on the disk;
 * its name is also, once its folder is synchronised. Rejects with errors of the system, having written nothing
 * through a link.
 */
export async function noteHead(
  path: string,
  { kept, announced }: NotedHead,
  { sync }: { readonly sync: boolean },
): Promise<void> {
  const temporary = `${headPathOf(path)}.new`;
  const heads = announced ? [kept, announced] : [kept];
  const file = await openNew(temporary);
  try {
    await file.writeFile(heads.map((head) => `${formatHead(head)}\n`).join(""));
    if (sync) await file.datasync();
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  await rename(temporary, headPathOf(path));
}

async function openNew(path: string): ReturnType<typeof openPlain> {
  const { O_WRONLY, O_CREAT, O_EXCL } = constants;
  try {
    return await openPlain(path, O_WRONLY | O_CREAT | O_EXCL);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    // a crash left it, or another user put it there: its name goes, and what it leads to stays as it is
    await rm(path, { force: true });
    return openPlain(path, O_WRONLY | O_CREAT | O_EXCL);
  }
}

/** Where the head of a file is noted. */
export function headPathOf(path: string): string {
  return `${path}.head`;
}
