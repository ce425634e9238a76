import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, join } from "node:path";

/** Where uploads of one process wait. */
export interface WaitingFolder {
  readonly path: string;
  /** Removes it with all that is in it. Idempotent. */
  remove(): Promise<void>;
}

// names that begin like this are never listed or opened, also where the folder is served
const prefix = ".sluice-uploads-";
/** Names of the folders that this process has: its number may be that of an earlier one, as in containers. */
const ours = new Set<string>();

/** Makes one inside `folder`, and removes those of processes on this machine that were killed. */
export async function makeWaitingFolder(folder: string): Promise<WaitingFolder> {
  const machine = createHash("sha256").update(hostname()).digest("hex").slice(0, 12);
  for (const name of await readdir(folder)) {
    const [, pid] = new RegExp(`^${prefix}${machine}-(\\d+)-\\w{6}$`).exec(name) ?? [];
    if (pid === undefined || ours.has(name) || isRunning(Number(pid))) continue;
    // one that cannot be removed is no reason not to start
    await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
  }
  const path = await mkdtemp(join(folder, `${prefix}${machine}-${process.pid}-`));
  const name = basename(path);
  ours.add(name);
  return {
    path,
    async remove() {
      await rm(path, { recursive: true, force: true });
      ours.delete(name);
    },
  };
}

/** True for another process that is there. */
function isRunning(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // one of somebody else may not be asked
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
