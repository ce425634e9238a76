import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir, hostname } from "node:os";
import { join, resolve } from "node:path";
import { readFault } from "@sluice/client/internal";
import type { BegunFile } from "@sluice/client/send";

/** The record of an unfinished upload, for the same command later. */
interface PutRecord {
  /** How to resume, if the file and the server are the same. */
  readonly begun: BegunFile | undefined;
  /** Stores it. A failure to is not a reason to stop. */
  remember(begun: BegunFile): Promise<void>;
  forget(): Promise<void>;
}

/** Servers keep unfinished uploads for minutes; this is for those that are more patient. */
const longestMs = 24 * 3_600_000;

/**
 * Opens the record for one file and server. It lies where other users of this machine cannot read it. Its name ends
 * with the process that it belongs to: of several that take over from one that ended, one can rename it, and two that
 * run never resume the same upload.
 */
export async function openPutRecord(server: string, file: string): Promise<PutRecord> {
  const folder = await openStateFolder();
  const identity = await identify(server, resolve(file));
  const name = createHash("sha256").update(identity).digest("hex").slice(0, 32);
  const path = join(folder, `${name}.${process.pid}.json`);
  await takeOver(folder, name, path);
  return {
    begun: await read(path),
    async remember(begun) {
      const fresh = `${path}.${randomUUID()}`;
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await writeFile(fresh, JSON.stringify(begun), { flag: "wx", mode: 0o600 });
        await rename(fresh, path);
      } catch {
        // the upload does not need it
      }
    },
    forget: () => rm(path, { force: true }),
  };
}

/** The folder of the records of unfinished uploads, without those of more than a day ago. It may not exist yet. */
export async function openStateFolder(): Promise<string> {
  const base = process.env["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  const folder = join(base, "sluice", "uploads");
  await removeOld(folder);
  return folder;
}

/** Gives a record that a process left its new name, if there is one. */
async function takeOver(folder: string, name: string, path: string): Promise<void> {
  for (const entry of await readdir(folder).catch(() => [])) {
    const [, of, pid] = /^([0-9a-f]{32})\.(\d+)\.json$/.exec(entry) ?? [];
    if (of !== name || isRunning(Number(pid))) continue;
    // another one was faster
    await rename(join(folder, entry), path).catch(() => {});
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** What must all be the same for an upload to resume: a changed file is another one. */
async function identify(server: string, file: string): Promise<string> {
  const info = await lstat(file, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
    throw readFault(file, error);
  });
  const { dev, ino, size, mtimeNs, ctimeNs } = info;
  return JSON.stringify([
    hostname(),
    server,
    file,
    ...[dev, ino, size, mtimeNs, ctimeNs].map(String),
  ]);
}

// another file at its place says nothing of this upload
const options = { encoding: "utf8", flag: constants.O_RDONLY | constants.O_NOFOLLOW } as const;

async function read(path: string): Promise<BegunFile | undefined> {
  try {
    const { uri, location, auth } = JSON.parse(await readFile(path, options)) as BegunFile;
    return typeof uri === "string" && typeof location === "string"
      ? { uri, location, auth: auth === "self" ? "self" : "bound" }
      : undefined;
  } catch {
    return undefined;
  }
}

async function removeOld(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const path = join(folder, name);
    const { mtimeMs } = await lstat(path).catch(() => ({ mtimeMs: Infinity }));
    if (Date.now() - mtimeMs > longestMs) await rm(path, { force: true });
  }
}
