import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { OAuthDiscoveryState } from "@modelcontextprotocol/client";
import { createSha256, SluiceError } from "@sluice/core";
import { sleep } from "@sluice/core/async";
import { isMembers, type Members } from "../../relay/messages.ts";

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
const pollMs = 200;

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
  const file = await open(temporary, "wx", 0o600);
  try {
    await file.writeFile(JSON.stringify(stored));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}

/**
 * Runs `work` while no other bridge of this user does the same for this server. A lock that is older than
 * `staleMs` counts as left behind.
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
    await file.close();
    await rm(lock, { force: true });
  }
}

async function takeLock(lock: string, staleMs: number, signal: AbortSignal): Promise<FileHandle> {
  const deadline = Date.now() + 2 * staleMs;
  while (Date.now() < deadline) {
    signal.throwIfAborted();
    try {
      return await open(lock, "wx", 0o600);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (await isStale(lock, staleMs)) await rm(lock, { force: true });
    else await sleep(pollMs, signal);
  }
  throw new SluiceError("timeout", "bridge: another bridge is signing in and does not end");
}

async function isStale(lock: string, staleMs: number): Promise<boolean> {
  try {
    const { mtimeMs } = await stat(lock);
    if (Date.now() - mtimeMs > staleMs) return true;
    const pid = Number(await readFile(lock, "utf8"));
    if (!Number.isInteger(pid) || pid <= 0) return false;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    // its owner is gone; a lock that vanished is tried again at once
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
