import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import {
  createKeyRing,
  formatKey,
  generateKey,
  tokenLifetimes,
  type SealingKey,
  type KeyState,
} from "@sluice/core";
import { openHandle } from "@sluice/core/internal/node";
import { parseKeyFile } from "@sluice/server/internal/node";
import { errnoOf, fault } from "../terminal/failure.ts";
import { note, print, printable } from "../terminal/print.ts";
import { formatDuration } from "../terminal/quantity.ts";

/** `sluice keys new`: makes a file with one new key. */
export async function newKeysCommand(path: string): Promise<void> {
  try {
    await writeNew(path, [generateKey()]);
  } catch (error) {
    if (errnoOf(error) === "EEXIST")
      throw fault("already_exists", `${path} exists`, "name another file, or rotate its keys");
    throw unwritable(path, error);
  }
  note(`Give it to every process of the server: sluice serve --keys ${printable(path)} …`);
}

/** `sluice keys list`: names and states, never the keys. */
export async function listKeysCommand(path: string): Promise<void> {
  for (const { kid, state = "current" } of await readKeys(path)) await print(`${kid}\t${state}`);
}

/** `sluice keys rotate`: takes one step, and says when the next may follow. */
export async function rotateKeysCommand(path: string): Promise<void> {
  const rotation = rotateKeys(await readKeys(path));
  await replaceKeys(path, rotation.keys);
  note(whatNext(rotation));
}

/** `sluice keys drop`: the tokens of a key are invalid at once. */
export async function dropKeyCommand(path: string, kid: string): Promise<void> {
  const keys = dropKey(await readKeys(path), kid);
  if (!keys) throw fault("invalid_argument", `there is no key ${kid}`, "see `sluice keys list`");
  await replaceKeys(path, keys);
  note(`${kid} is gone: what it sealed is refused wherever this file is followed`);
}

function whatNext({ step, kid }: Rotation): string {
  // links live longer only where an author says so, which this command cannot know
  const { link, ...others } = tokenLifetimes;
  const longest = Math.max(
    link.self.ttlMs,
    ...Object.values(others).flatMap((byAuth) =>
      Object.values(byAuth).map(({ maxTtlMs }) => maxTtlMs),
    ),
  );
  const advice: Record<Rotation["step"], string> = {
    published: "is published: rotate again when every process has this file, to seal with it",
    flipped: `seals now: rotate again in ${formatDuration(longest)}, or after links.maxTtlMs of the server if that is longer, when nothing that the old key sealed is in use`,
    retired: "is retired: the rotation is complete",
  };
  return `${kid} ${advice[step]}`;
}

async function readKeys(path: string): Promise<readonly SealingKey[]> {
  try {
    const keys = parseKeyFile(await readFile(path, "utf8"));
    createKeyRing(keys);
    return keys;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const what = error instanceof TypeError ? message : `it cannot be read (${code})`;
    throw fault("invalid_argument", `${path}: ${what}`, "make one with `sluice keys new`");
  }
}

/** In one step, so that a process that follows the file never sees a part of it. */
async function replaceKeys(path: string, keys: readonly SealingKey[]): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await writeNew(temporary, keys);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw unwritable(path, error);
  }
}

async function writeNew(path: string, keys: readonly SealingKey[]): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const file = await openHandle(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    await file.writeFile(keys.map((key) => `${formatKey(key)}\n`).join(""));
    await file.sync();
  } finally {
    await file.close();
  }
}

function unwritable(path: string, error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  return fault("invalid_argument", `${path} cannot be written (${errno})`, "name another file");
}

/** One step of a rotation, and the keys after it. */
interface Rotation {
  readonly step: "published" | "flipped" | "retired";
  /** Name of the key that the step was about. */
  readonly kid: string;
  readonly keys: readonly SealingKey[];
}

/**
 * The next step of a rotation: a new key is published, so that every process knows it; then it seals, and the old
 * one still opens; then the old one is retired.
 */
export function rotateKeys(keys: readonly SealingKey[]): Rotation {
  const inState = (state: KeyState): SealingKey | undefined =>
    keys.find((key) => (key.state ?? "current") === state);
  const previous = inState("previous");
  if (previous)
    return { step: "retired", kid: previous.kid, keys: keys.filter((key) => key !== previous) };
  const next = inState("next");
  if (!next) {
    const fresh = generateKey({ kid: freeKid(keys), state: "next" });
    return { step: "published", kid: fresh.kid, keys: [...keys, fresh] };
  }
  const successor: Partial<Record<KeyState, KeyState>> = { next: "current", current: "previous" };
  return {
    step: "flipped",
    kid: next.kid,
    keys: keys.map(({ kid, key, state = "current" }) => ({
      kid,
      key,
      state: successor[state] ?? state,
    })),
  };
}

/**
 * The keys without one that is invalid at once. If it was the one that seals, the next one takes its place, or a new
 * one. `undefined` when there is no key of this name.
 */
export function dropKey(
  keys: readonly SealingKey[],
  kid: string,
): readonly SealingKey[] | undefined {
  const dropped = keys.find((key) => key.kid === kid);
  if (!dropped) return undefined;
  const remainingKeys = keys.filter((key) => key !== dropped);
  if ((dropped.state ?? "current") !== "current") return remainingKeys;
  const next = remainingKeys.find(({ state }) => state === "next");
  if (!next) return [...remainingKeys, generateKey({ kid: freeKid(keys) })];
  return remainingKeys.map((key) => (key === next ? { kid: key.kid, key: key.key } : key));
}

/** A name that no key of the ring has: names say nothing, and one may come again when its key is long gone. */
function freeKid(keys: readonly SealingKey[]): string {
  const takenIds = new Set(keys.map(({ kid }) => kid));
  let number = 1;
  while (takenIds.has(nameOf(number))) number += 1;
  return nameOf(number);
}

function nameOf(number: number): string {
  return number.toString(36).padStart(2, "k");
}
