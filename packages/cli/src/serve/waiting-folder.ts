import { lstat, mkdtemp, readdir, rm, utimes } from "node:fs/promises";
import { basename, join } from "node:path";

/** Where uploads of one process wait. */
export interface WaitingFolder {
  readonly path: string;
  /** Removes it with all that is in it. Idempotent. */
  remove(): Promise<void>;
}

// names that begin like this are never listed or opened, also where the folder is served
const prefix = ".sluice-uploads-live-";
const lookEveryMs = 60_000;
/** A folder that stays as it is from look to look so often has no process any more. */
const quietLooks = 10;

/** Makes one inside `folder`. While it is there it shows that it is used, and those of killed processes are removed. */
export async function makeWaitingFolder(folder: string): Promise<WaitingFolder> {
  const path = await mkdtemp(join(folder, prefix));
  const look = createLookout(path);
  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= look().finally(() => void (looking = undefined));
  }, lookEveryMs);
  timer.unref();
  return {
    path,
    async remove() {
      clearInterval(timer);
      await looking;
      await rm(path, { recursive: true, force: true });
    },
  };
}

/**
 * Gives the function that touches a waiting folder, and removes those beside it that no process has touched for so many
 * calls in a row. Neither clocks nor names of processes count: in containers both may be those of another machine, and
 * all that slept wake up at once. The function never rejects: what it missed is for the next call.
 */
export function createLookout(path: string): () => Promise<void> {
  const folder = join(path, "..");
  const ours = basename(path);
  let seen = new Map<string, { readonly mtimeMs: number; readonly looks: number }>();

  async function look(): Promise<void> {
    const now = new Date();
    await utimes(path, now, now);
    const before = seen;
    seen = new Map();
    for (const name of await readdir(folder)) {
      if (!name.startsWith(prefix) || name === ours) continue;
      const found = await lstat(join(folder, name)).catch(() => undefined);
      if (!found?.isDirectory()) continue;
      const { mtimeMs } = found;
      const last = before.get(name);
      const looks = last?.mtimeMs === mtimeMs ? last.looks + 1 : 0;
      if (looks < quietLooks) seen.set(name, { mtimeMs, looks });
      else await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
    }
  }

  return () => look().catch(() => {});
}
