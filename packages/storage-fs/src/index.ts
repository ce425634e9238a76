import { statfs } from "node:fs/promises";
import { sleep } from "@sluice/core/internal";
import type { OpenedObject, StorageBackend, WritableBackend } from "@sluice/storage";
import {
  createBytesBody,
  ensureCondition,
  resolveRange,
  withBody,
  withKept,
} from "@sluice/storage/plugin";
import { createLister } from "./read/list.ts";
import { createOpenedObject, racyFor, toObjectInfo } from "./read/opened-object.ts";
import { closeFile, openFile, type OpenedFile } from "./read/open-file.ts";
import { removeFile } from "./write/remove-file.ts";
import { beginCall, createRoot, type FsRoot } from "./root/root.ts";
import { createSmallFiles, type SmallFile } from "./read/small-files.ts";
import { createFsWatch } from "./watch/watched-tree.ts";
import { createKeyLocks } from "./write/key-locks.ts";
import { createFsStepWriter } from "./write/step-writer.ts";
import { createFsWriter } from "./write/writer.ts";

export { removeAbandonedWrites, type AbandonedWritesOptions } from "./write/abandoned-writes.ts";

/** Settings of {@link createFsBackend}. */
export interface FsBackendOptions {
  /** The folder to serve. It is resolved once, when the backend is created. */
  readonly root: string;
  /** Show and open names that start with a dot, but not with two. Default: false. */
  readonly dotfiles?: boolean;
  /**
   * Keys of files that are only ever appended to, such as logs: their growth after opening is not a
   * change, and the bytes that were there are delivered. They have no etag, and `describe` tells no
   * size, since each moment has its own version, which nothing keeps: a later or resumed request
   * gets the whole file as it is then. Default: no key.
   */
  readonly appendOnly?: (key: string) => boolean;
  /**
   * Milliseconds for which a changed file has no etag in lists, `open` and `commit`, because its file
   * system could give the next change the same time. `describe` waits until they have passed, at most
   * 4 s and once. Default: 100; 2000 suits FAT and HFS+.
   */
  readonly racyMs?: number;
  /** Give the backend a `write`, a `writeInSteps`, a `remove` and `freeBytes`. Default: false. */
  readonly writable?: boolean;
}

/**
 * Creates a backend over a folder of this machine. Nothing outside the folder can be reached:
 * a file is opened first, and then its descriptor is asked where it lies.
 *
 * Throws `not_found`, `permission_denied` or `unsupported` when the folder cannot be served.
 */
export function createFsBackend(
  options: FsBackendOptions & { readonly writable: true },
): WritableBackend;
export function createFsBackend(options: FsBackendOptions): StorageBackend;
export function createFsBackend(options: FsBackendOptions): StorageBackend {
  if (typeof (options as Partial<FsBackendOptions> | undefined)?.root !== "string")
    throw new TypeError('createFsBackend: root must be the path of a folder: { root: "./files" }');
  const { dotfiles = false, appendOnly = () => false, racyMs = 100, writable = false } = options;
  const root = createRoot(options.root, dotfiles);
  // a file that may grow at any moment is always too young for an etag
  const racyOf = (key: string): number => (appendOnly(key) ? Infinity : racyMs);
  const lister = createLister(root, racyOf);
  const smallFiles = createSmallFiles(root);
  const watches = createFsWatch(root);
  const withKeyLock = createKeyLocks();

  const backend = {
    name: "fs",

    // #region describe
    async describe(key, { signal } = {}) {
      const operation = beginCall(root, "describe", key, { signal });
      const small = smallFiles.find(key);
      if (small) return small.info;
      let file = await lookAt(root, key, operation, signal);
      let waitMs = racyFor(file.stats, racyOf(file.key));
      // a request for a version gets one: the next change will have another time
      if (waitMs > 0 && waitMs <= maxRacyWaitMs) {
        // a timer that starts late in a turn of the event loop ends early by the clock
        for (; waitMs > 0; waitMs = racyFor(file.stats, racyMs)) await sleep(waitMs, signal);
        file = await lookAt(root, key, operation, signal);
      }
      const { size, ...info } = toObjectInfo(file.key, file.stats, racyOf(file.key));
      // a reported size is a promise, and by the time of opening there may be more
      return appendOnly(file.key) ? info : { size, ...info };
    },
    // #endregion

    // #region open
    open: withKept(async (key, { range, ifMatch, signal } = {}) => {
      const operation = beginCall(root, "open", key, { range, signal });
      const whole = range === undefined;
      const openKept = ({ info, bytes }: SmallFile): OpenedObject => {
        ensureCondition(info, { ifMatch }, operation);
        // a reader of a body owns its chunks
        return withBody({ info, bytes }, () => createBytesBody(new Uint8Array(bytes), signal));
      };
      const small = whole ? smallFiles.find(key) : undefined;
      if (small) return openKept(small);
      const file = await openFile(root, key, operation, signal);
      try {
        const info = toObjectInfo(file.key, file.stats, racyOf(file.key));
        ensureCondition(info, { ifMatch }, operation);
        const resolved = range && resolveRange(range, info.size, operation);
        const fresh = whole && info.key === key ? await smallFiles.keep(file, info) : undefined;
        if (fresh) {
          await closeFile(root, file);
          return openKept(fresh);
        }
        const mayGrow = appendOnly(info.key);
        return createOpenedObject(root, file, { info, range: resolved, mayGrow, signal });
      } catch (error) {
        await closeFile(root, file);
        throw error;
      }
    }, smallFiles.find),
    // #endregion

    list: (listOptions = {}) => lister.list(listOptions),

    watch: (watchOptions) => watches.watch(watchOptions),

    async close() {
      watches.close();
      await lister.close();
    },
    // #region optional
  } satisfies StorageBackend;
  if (!writable) return backend;
  return {
    ...backend,
    write: (key, writeOptions = {}) =>
      createFsWriter(root, key, writeOptions, { racyMs, withKeyLock }),
    writeInSteps: (key, stepOptions = {}) =>
      createFsStepWriter(root, key, stepOptions, { racyMs, withKeyLock }),
    remove: (key, { signal } = {}) => removeFile(root, key, withKeyLock, signal),
    async freeBytes({ signal } = {}) {
      signal?.throwIfAborted();
      // some file systems tell nothing
      const { blocks, bavail, bsize } = await statfs(root.path).catch(() => unknownSize);
      return blocks === 0 ? undefined : bavail * bsize;
    },
  };
  // #endregion
}

const unknownSize = { blocks: 0, bavail: 0, bsize: 0 };

/** Longest wait of one `describe`: two ticks of FAT. */
const maxRacyWaitMs = 4_000;

async function lookAt(
  root: FsRoot,
  key: string,
  operation: string,
  signal: AbortSignal | undefined,
): Promise<OpenedFile> {
  const file = await openFile(root, key, operation, signal);
  await closeFile(root, file);
  return file;
}
