import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { OAuthDiscoveryState } from "@modelcontextprotocol/client";
import { createSha256 } from "@sluice/core";
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
  const file = await open(temporary, "wx", 0o600);
  try {
    await file.writeFile(JSON.stringify(stored));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}
