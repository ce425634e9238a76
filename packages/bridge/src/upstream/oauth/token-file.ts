import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, stat, rm, type FileHandle } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { OAuthDiscoveryState } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { createSha256, sleep } from "@sluice/core/internal";
import { openHandle } from "@sluice/core/internal/node";
import { isMembers, type Members } from "../../messages/messages.ts";

/** What is kept of one server between runs. */
export interface StoredSignIn {
  readonly tokens?: Members | undefined;
  readonly client?: Members | undefined;
  /** Scopes that the tokens have, or were asked for with. */
  readonly scope?: string | undefined;
  /** Port that the client was registered with. */
  readonly port?: number | undefined;
  readonly discovery?: OAuthDiscoveryState | undefined;
}

const maxFileBytes = 2 ** 20;

/** Folder of a user for what a bridge keeps: `$XDG_STATE_HOME/sluice/bridge`, on Windows in `%LOCALAPPDATA%`. */
export function bridgeStateFolder(env: NodeJS.ProcessEnv = process.env): string {
  const { XDG_STATE_HOME: xdg, LOCALAPPDATA: local } = env;
  const base =
    process.platform === "win32"
      ? local || join(homedir(), "AppData", "Local")
      : xdg || join(homedir(), ".local", "state");
  return join(base, "sluice", "bridge");
}

/** Path of the file for one server: its name tells nothing. */
export function tokenFilePath(folder: string, url: URL): string {
  const hash = createSha256();
  hash.update(new TextEncoder().encode(url.href));
  const name = Buffer.from(hash.digest()).toString("hex").slice(0, 32);
  return join(folder, `${name}.json`);
}

/** What the file holds; nothing when there is none, or when it cannot be read. */
export async function readSignIn(path: string): Promise<StoredSignIn> {
  try {
    if ((await stat(path)).size > maxFileBytes) return {};
    const stored: unknown = JSON.parse(await readFile(path, "utf8"));
    return isMembers(stored) ? stored : {};
  } catch {
    return {};
  }
}

/** Replaces the file as a whole. Only its owner can read it. */
export async function writeSignIn(path: string, stored: StoredSignIn): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${randomUUID()}`;
  const file = await openHandle(temporary, "wx", 0o600);
  try {
    await file.writeFile(JSON.stringify(stored));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}

const pollMs = 200;
/** A lock gets the id of its process, and a stale one is removed, in less. */
const momentMs = 5_000;

/**
 * Runs `work` while no other bridge of this user does the same for this server. A lock that is older than
 * `staleMs`, or whose process is over, counts as left behind.
 */
export async function whileLocked<T>(
  path: string,
  staleMs: number,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const lock = `${path}.lock`;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await takeLock(lock, staleMs, signal);
  try {
    await file.writeFile(String(process.pid));
    return await work();
  } finally {
    // after `staleMs` it may be another's
    if (await isAt(file, lock)) await rm(lock, { force: true });
    await file.close();
  }
}

async function takeLock(lock: string, staleMs: number, signal: AbortSignal): Promise<FileHandle> {
  const deadline = Date.now() + 2 * staleMs;
  while (Date.now() < deadline) {
    signal.throwIfAborted();
    const file = await openNew(lock);
    if (file) return file;
    const isGone = (await isStale(lock, staleMs)) && (await removeStale(lock, staleMs));
    if (!isGone) await sleep(pollMs, signal);
  }
  throw new SluiceError("timeout", "bridge: another bridge is signing in and does not end");
}

/**
 * Removes a lock that is left behind, one bridge at a time: it is looked at again, so that none removes the lock which
 * another has just made in its place. False when another bridge does it.
 */
async function removeStale(lock: string, staleMs: number): Promise<boolean> {
  const removing = `${lock}.removing`;
  const file = await openNew(removing);
  if (!file) {
    // a bridge that was killed here left it
    if (await isOlder(removing, momentMs)) await rm(removing, { force: true });
    return false;
  }
  try {
    if (await isStale(lock, staleMs)) await rm(lock, { force: true });
    return true;
  } finally {
    await file.close();
    await rm(removing, { force: true });
  }
}

/** A new file; undefined if there is one. */
async function openNew(path: string): Promise<FileHandle | undefined> {
  try {
    return await openHandle(path, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return undefined;
    throw error;
  }
}

async function isStale(lock: string, staleMs: number): Promise<boolean> {
  if (await isOlder(lock, staleMs)) return true;
  try {
    const pid = Number(await readFile(lock, "utf8"));
    // its process was killed before it wrote its id
    if (!Number.isInteger(pid) || pid <= 0) return await isOlder(lock, momentMs);
    process.kill(pid, 0);
    return false;
  } catch (error) {
    // its owner is gone; a lock that vanished is tried again at once
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

async function isOlder(path: string, ms: number): Promise<boolean> {
  const info = await stat(path).catch(() => undefined);
  return info !== undefined && Date.now() - info.mtimeMs > ms;
}

async function isAt(file: FileHandle, path: string): Promise<boolean> {
  const [ours, there] = await Promise.all([file.stat(), stat(path).catch(() => undefined)]);
  return ours.dev === there?.dev && ours.ino === there.ino;
}
