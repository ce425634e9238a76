import { SluiceError } from "@sluice/core";
import { sleep } from "@sluice/core/async";
import type { OpenedObject, StorageBackend } from "@sluice/storage";
import { createBody, quoteKey, resolveRange } from "@sluice/storage/plugin";
import { createLister } from "../read/list.ts";
import { type FileInfo, racyFor, toObjectInfo } from "../read/object-info.ts";
import { closeFile, openFile, type OpenedFile } from "../read/open-file.ts";
import { createOpenedObject } from "../read/opened-object.ts";
import { removeFile } from "../write/remove-file.ts";
import { createRoot, type FsRoot } from "./root.ts";
import { createSmallFiles, type SmallFile } from "../read/small-files.ts";
import { createFsWatch } from "../watch/watch.ts";
import { createKeyLocks } from "../write/key-locks.ts";
import { createFsWriter } from "../write/writer.ts";

/** Settings of {@link createFsBackend}. */
export interface FsBackendOptions {
  /** The folder to serve. It is resolved once, when the backend is created. */
  readonly root: string;
  /** Show and open names that start with a dot. Default: false. */
  readonly dotfiles?: boolean;
  /**
   * Keys of files that are only ever appended to, such as logs: their growth after opening is no
   * change, and the bytes that were there are delivered. Default: no key.
   */
  readonly appendOnly?: (key: string) => boolean;
  /**
   * Milliseconds for which a changed file has no etag in lists, `open` and `commit`, because its file
   * system could give the next change the same time. `describe` waits until they are over, at most
   * 4 s and once. Default: 100; 2000 suits FAT and HFS+.
   */
  readonly racyMs?: number;
  /** Give the backend a `write` and a `remove`. Default: false. */
  readonly writable?: boolean;
}

/**
 * Creates a backend over a folder of this machine. Nothing outside the folder can be reached:
 * a file is opened first, and then its descriptor is asked where it lies.
 *
 * Throws `not_found`, `permission_denied` or `unsupported` when the folder cannot be served.
 */
export function createFsBackend(options: FsBackendOptions): StorageBackend {
  if (typeof (options as Partial<FsBackendOptions> | undefined)?.root !== "string")
    throw new TypeError('createFsBackend: root must be the path of a folder: { root: "./files" }');
  const { dotfiles = false, appendOnly = () => false, racyMs = 100, writable = false } = options;
  const root = createRoot(options.root, dotfiles);
  const lister = createLister(root, racyMs);
  const smallFiles = createSmallFiles(root);
  const watches = createFsWatch(root);
  const withKeyLock = createKeyLocks();

  const backend = {
    name: "fs",

    // #region describe
    async describe(key, { signal } = {}) {
      let file = await lookAt(root, key, signal);
      const waitMs = racyFor(file.stats, racyMs);
      // what asks for a version gets one: the next change will have another time
      if (waitMs > 0 && waitMs <= mostRacyWaitMs) {
        await sleep(waitMs, signal);
        file = await lookAt(root, key, signal);
      }
      return toObjectInfo(file.key, file.stats, racyMs);
    },
    // #endregion

    // #region open
    async open(key, { range, ifMatch, signal } = {}) {
      const operation = "fs: open";
      signal?.throwIfAborted();
      const whole = range === undefined;
      const kept = whole ? smallFiles.find(key) : undefined;
      if (kept) return openKept(kept, { operation, ifMatch, signal });
      const file = await openFile(root, key, operation, signal);
      try {
        const info = toObjectInfo(file.key, file.stats, racyMs);
        ensureMatch(info, ifMatch, operation);
        const resolved = range && resolveRange(range, info.size, `${operation} ${quoteKey(key)}`);
        const fresh = whole && info.key === key ? await smallFiles.keep(file, info) : undefined;
        if (fresh) {
          await closeFile(root, file);
          return openKept(fresh, { operation, ifMatch, signal });
        }
        const mayGrow = appendOnly(info.key);
        return createOpenedObject(root, file, { info, range: resolved, mayGrow, signal });
      } catch (error) {
        await closeFile(root, file);
        throw error;
      }
    },
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
    remove: (key, { signal } = {}) => removeFile(root, key, { withKeyLock, signal }),
  };
  // #endregion
}

/** Longest wait of one `describe`: two ticks of FAT. */
const mostRacyWaitMs = 4_000;

async function lookAt(
  root: FsRoot,
  key: string,
  signal: AbortSignal | undefined,
): Promise<OpenedFile> {
  const file = await openFile(root, key, "fs: describe", signal);
  await closeFile(root, file);
  return file;
}

interface KeptOptions {
  readonly operation: string;
  readonly ifMatch: string | undefined;
  readonly signal: AbortSignal | undefined;
}

function openKept(
  { info, bytes }: SmallFile,
  { operation, ifMatch, signal }: KeptOptions,
): OpenedObject {
  ensureMatch(info, ifMatch, operation);
  let body: ReadableStream<Uint8Array> | undefined;
  return {
    info,
    bytes,
    get body() {
      return (body ??= bodyOf(bytes, signal));
    },
  };
}

function bodyOf(bytes: Uint8Array, signal: AbortSignal | undefined): ReadableStream<Uint8Array> {
  // a reader of a body owns its chunks
  let rest: Uint8Array | undefined = new Uint8Array(bytes);
  return createBody({
    async next() {
      const chunk = rest;
      rest = undefined;
      return chunk;
    },
    signal,
  });
}

function ensureMatch(info: FileInfo, ifMatch: string | undefined, operation: string): void {
  if (ifMatch !== undefined && ifMatch !== info.etag)
    throw new SluiceError(
      "precondition_failed",
      `${operation} ${quoteKey(info.key)}: the file has changed`,
    );
}
