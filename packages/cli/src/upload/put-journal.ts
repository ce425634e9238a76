import { createHash } from "node:crypto";
import { appendFile, mkdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { readFault } from "@sluice/client/internal";
import { headersFrom } from "../server-calls/headers.ts";
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

/** The sender of a run, and what its options say of the files. */
interface PutSender {
  readonly token?: string | undefined;
  readonly header?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly name?: string | undefined;
}

/**
 * Opens the journal of a run: of this server, tool, arguments and sender. It lies where other users cannot read it, for a day after its
 * last line.
 */
export async function openPutJournal(
  server: string,
  tool: string,
  names: readonly string[],
  { token, header = [], type, name }: PutSender,
): Promise<PutJournal> {
  // with the values that headers have from the environment
  const sender = sha256Of([token, headersFrom(header)]);
  const paths = names.map((path) => resolve(path));
  const identity = sha256Of([server, tool, paths, sender, type, name]);
  const path = join(await openStateFolder(), `${identity.slice(0, 32)}.sent`);
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
 * that changes meanwhile is to be sent again. Throws `not_found` or `permission_denied` if it cannot be read.
 */
export async function versionOf(file: string): Promise<string> {
  const { size, mtimeMs, ino } = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw readFault(file, error);
  });
  return sha256Of([resolve(file), size, mtimeMs, ino]);
}

function sha256Of(facts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex");
}
