import { close, constants, lstat, open } from "node:fs";
import { promisify } from "node:util";
import { backgroundClock } from "@sluice/core/internal";
import { definedMembers } from "@sluice/core/internal";
import type { ListOptions, ListPage, ObjectInfo } from "@sluice/storage";
import {
  type FoundPage,
  listPage,
  type ListRequest,
  type UnlistedReason,
} from "@sluice/storage/plugin";
import { SluiceError } from "@sluice/core";
import { lookFault, toSluiceError } from "../root/fs-error.ts";
import { closeFile, openFile } from "./open-file.ts";
import { toObjectInfo } from "./opened-object.ts";
import type { FsRoot } from "../root/root.ts";
import { createWalk, type FoundFile, type FileWalk, type WalkPosition } from "./walk.ts";

const operation = "fs: list";
/** How many files are looked at together; more would only wait in the thread pool. */
const together = 32;
const maxIdleWalks = 16;
const idleMs = 30_000;

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const closeAsync = promisify(close);
const lstatAsync = promisify(lstat);
const openAsync = promisify(open);

interface FsLister {
  list(options: ListOptions): Promise<ListPage>;
  close(): Promise<void>;
}

/**
 * Between two pages the walk stays open, so that the next page resumes where the last one ended: at
 * most 16 walks, each for 30 s. A cursor whose walk is gone starts a new one at its position.
 */
export function createLister(root: FsRoot, racyOf: (key: string) => number): FsLister {
  /** By prefix and position that they continue, longest idle first. */
  const idle = new Map<string, { readonly walk: FileWalk; readonly cancelTimer: () => void }>();
  let closed = false;

  const take = (name: string): FileWalk | undefined => {
    const entry = idle.get(name);
    idle.delete(name);
    entry?.cancelTimer();
    return entry?.walk;
  };
  const drop = async (name: string): Promise<void> => {
    await take(name)?.close();
  };
  const keep = async (name: string, walk: FileWalk): Promise<void> => {
    if (closed) return walk.close();
    const dropQuietly = (): void => void drop(name).catch(() => {});
    idle.set(name, { walk, cancelTimer: backgroundClock.schedule(dropQuietly, idleMs) });
    const [oldest] = idle.keys();
    if (idle.size > maxIdleWalks && oldest !== undefined) await drop(oldest);
  };

  const findPage = async (
    { prefix, limit, after }: ListRequest,
    signal: AbortSignal | undefined,
  ): Promise<FoundPage> => {
    const from = after === undefined ? undefined : parsePosition(after);
    const idleWalk = after === undefined ? undefined : take(prefix + after);
    const walk = idleWalk ?? createWalk(root, prefix, from?.position);
    // two walks at the same place have different cursors
    const id = (idleWalk && from?.walk) ?? crypto.randomUUID();
    try {
      const infos: Promise<ObjectInfo | UnlistedReason | undefined>[] = [];
      while (infos.length < limit) {
        const file = await walk.next(signal);
        if (file === undefined) break;
        const info = toListed(root, file, racyOf(file.key));
        walk.hold(info);
        if (infos.push(info) % together === 0) await Promise.all(infos.slice(-together));
      }
      const objects: ObjectInfo[] = [];
      for (const info of await Promise.all(infos))
        if (typeof info === "object") objects.push(info);
        else walk.unlisted.add(info);
      const page = { objects, ...definedMembers({ unlisted: walk.unlisted.take() }) };
      if (infos.length < limit) {
        await walk.close();
        return page;
      }
      const next = formatPosition({ walk: id, position: walk.position() });
      await keep(prefix + next, walk);
      return { ...page, next };
    } catch (error) {
      await walk.close();
      signal?.throwIfAborted();
      throw toSluiceError(error, operation);
    }
  };

  return {
    list: (options) =>
      listPage(options, { operation, store: root.path }, (request) =>
        findPage(request, options.signal),
      ),
    async close() {
      closed = true;
      await Promise.all([...idle.keys()].map(drop));
    },
  };
}

/** The metadata of a file, or why it is not listed; `undefined` if it is gone by now. */
async function toListed(
  root: FsRoot,
  { key, path, isLink }: FoundFile,
  racyMs: number,
): Promise<ObjectInfo | UnlistedReason | undefined> {
  if (isLink) return toListedLink(root, key, racyMs);
  try {
    const stats = await lstatAsync(path, { bigint: true });
    if (stats.isDirectory()) return "unreadable";
    if (!stats.isFile()) return stats.isSymbolicLink() ? "link" : "special";
    // not for everybody to read, so perhaps not for us: opening it tells
    if ((stats.mode & 0o444n) !== 0o444n)
      await closeAsync(await openAsync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    return toObjectInfo(key, stats, racyMs);
  } catch (error) {
    return lookFault(error, path);
  }
}

/** The same for a name of a mounted volume, whose file is opened for it: that tells where it lies. */
async function toListedLink(
  root: FsRoot,
  key: string,
  racyMs: number,
): Promise<ObjectInfo | UnlistedReason> {
  try {
    const file = await openFile(root, key, operation, undefined);
    await closeFile(root, file);
    return file.key === key ? toObjectInfo(key, file.stats, racyMs) : "link";
  } catch {
    // it leads to nothing, outside of the root, or to a folder that could not be entered
    return "link";
  }
}

/** Where the next page of a listing begins. */
interface PagePosition {
  /** Tells walks apart that stand at the same place. */
  readonly walk: string;
  readonly position: WalkPosition;
}

// #region position
/** A position as the text of a cursor. It only says which names to pass over. */
function formatPosition({ walk, position }: PagePosition): string {
  return Buffer.from(JSON.stringify([walk, ...position])).toString("base64url");
}

/** The position in the text that {@link formatPosition} made; any other text throws `invalid_argument`. */
export function parsePosition(text: string): PagePosition {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    if (Array.isArray(parts) && typeof parts[0] === "string" && parts.slice(1).every(isNames))
      return { walk: parts[0], position: parts.slice(1) };
  } catch {
    // no JSON: not one of ours either
  }
  throw new SluiceError("invalid_argument", `${operation}: the cursor is not one of this store`);
}
// #endregion

function isNames(part: unknown): part is readonly string[] {
  return Array.isArray(part) && part.every((name) => typeof name === "string");
}
