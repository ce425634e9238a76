import { readFile, rename, writeFile } from "node:fs/promises";
import { formatHead, parseHead, type ChainHead } from "./audit-chain.ts";

/** Where a chain stands, as it is noted beside its file. */
export interface NotedHead {
  /** The file has all lines up to here. */
  readonly kept: ChainHead;
  /** Lines up to here were being written: whoever was to write them may have died before, between or after them. */
  readonly announced?: ChainHead;
}

/** What was noted, if there is anything that can be read. */
export async function readHead(path: string): Promise<NotedHead | undefined> {
  const text = await readFile(headPathOf(path), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const [kept, announced] = text.split("\n").map(parseHead);
  return kept && { kept, ...(announced && { announced }) };
}

/** Replaces the note at once. */
export async function noteHead(path: string, { kept, announced }: NotedHead): Promise<void> {
  const temporary = `${headPathOf(path)}.new`;
  const heads = announced ? [kept, announced] : [kept];
  await writeFile(temporary, heads.map((head) => `${formatHead(head)}\n`).join(""), {
    mode: 0o600,
  });
  await rename(temporary, headPathOf(path));
}

function headPathOf(path: string): string {
  return `${path}.head`;
}
