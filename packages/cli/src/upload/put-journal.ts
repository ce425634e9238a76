import { createHash } from "node:crypto";
import { appendFile, mkdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { openStateFolder } from "../server-calls/put-record.ts";

/** The files of an unfinished run that a tool got, so that the same command does not send them again. */
export interface PutJournal {
  /** True for a version of a file that an earlier run handed to the tool. */
  isDone(version: string): boolean;
  /** Stores that the tool got a version of a file. A failure to is not a reason to stop. */
  note(version: string): Promise<void>;
  /** Every file is done: the next run begins anew. */
  forget(): Promise<void>;
}

/**
 * Opens the journal of a run: of this server, tool and arguments. It lies where other users cannot read it, for a day after its
 * last line.
 */
export async function openPutJournal(
  server: string,
  tool: string,
  names: readonly string[],
): Promise<PutJournal> {
  const identity = JSON.stringify([server, tool, ...names.map((name) => resolve(name))]);
  const name = createHash("sha256").update(identity).digest("hex").slice(0, 32);
  const path = join(await openStateFolder(), `${name}.sent`);
  const lines = (await readFile(path, "utf8").catch(() => "")).split("\n");
  const done = new Set(lines);
  return {
    isDone: (version) => done.has(version),
    async note(version) {
      try {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await appendFile(path, `${version}\n`, { mode: 0o600 });
      } catch {
        // the next run sends it again
      }
    },
    forget: () => rm(path, { force: true }),
  };
}

/**
 * A digest of what tells a version of a file from another one: the journal holds no names. Take it before the file is read: one
 * that changes meanwhile is to be sent again.
 */
export async function versionOf(file: string): Promise<string> {
  const { size, mtimeMs, ino } = await stat(file);
  const text = JSON.stringify([resolve(file), size, mtimeMs, ino]);
  return createHash("sha256").update(text).digest("hex");
}
