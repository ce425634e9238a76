import { constants } from "node:fs";
import { callbackify, promisify } from "node:util";
import type { Life } from "../process/machine.ts";
import type { Disk } from "./disk.ts";
import { SystemCalls } from "./system-calls.ts";

/** `node:fs` and `node:fs/promises` of a process. */
export interface FileModules {
  readonly module: object;
  readonly promises: object;
}

/** The parts of `node:fs` and `node:fs/promises` that the product uses, over a simulated disk, for one process. */
export function createFileSystem(disk: Disk, life: Life): FileModules {
  const calls = new SystemCalls(disk, life);
  const operate = <T>(name: string, path: string, work: () => T): Promise<T> =>
    disk.operate(life, name, path, work);
  const promises = createPromises(calls, operate);
  return { promises, module: createCallbacks(disk, life, calls, operate, promises) };
}

type Operate = <T>(name: string, path: string, work: () => T) => Promise<T>;
type Bits = string | number;

function createHandle(calls: SystemCalls, operate: Operate, fd: number, path: string): object {
  let isOpen = true;
  const handle = {
    // as Node has it once it is closed
    get fd() {
      return isOpen ? fd : -1;
    },
    stat: (options?: { bigint?: boolean }) =>
      operate("fstat", path, () => calls.fstat(fd, options)),
    writev: (chunks: readonly Uint8Array[], position?: number) =>
      operate("writev", path, () => ({
        bytesWritten: calls.write(fd, Buffer.concat(chunks), position),
        buffers: chunks,
      })),
    write: (bytes: Uint8Array, from = 0, length = bytes.length - from, position?: number) =>
      handle.writev([bytes.subarray(from, from + length)], position),
    read: (into: Uint8Array, from: number, length: number, position: number) =>
      operate("read", path, () => ({
        bytesRead: calls.read(fd, into, from, length, position),
        buffer: into,
      })),
    readFile: (encoding?: BufferEncoding | { encoding?: BufferEncoding }) =>
      operate("read", path, () => calls.readAll(fd, encoding)),
    truncate: (length?: number) => operate("ftruncate", path, () => calls.truncate(fd, length)),
    chmod: (mode: number) => operate("fchmod", path, () => calls.chmod(fd, mode)),
    utimes: (_accessed: unknown, modified: Date | number) =>
      operate("futimes", path, () => calls.utimes(fd, modified)),
    sync: () => operate("sync", path, () => calls.sync(fd)),
    datasync: () => operate("datasync", path, () => calls.datasync(fd)),
    async close() {
      if (!isOpen) return;
      isOpen = false;
      await operate("close", path, () => calls.close(fd));
    },
    // those of Node are emitters
    on: () => handle,
    [Symbol.asyncDispose]: () => handle.close(),
  };
  return handle;
}

function createPromises(calls: SystemCalls, operate: Operate) {
  const open = async (path: string, flags?: Bits, mode?: number): Promise<object> =>
    createHandle(calls, operate, await openDescriptor(path, flags, mode), path);
  const openDescriptor = (path: string, flags?: Bits, mode?: number): Promise<number> =>
    operate("open", path, () => calls.open(path, flags, mode));

  async function using<T>(
    path: string,
    flags: string,
    work: (handle: any) => Promise<T>,
    mode?: number,
  ): Promise<T> {
    const handle = (await open(path, flags, mode)) as { close(): Promise<void> };
    try {
      return await work(handle);
    } finally {
      await handle.close();
    }
  }

  const stat = (
    path: string,
    options?: { bigint?: boolean; throwIfNoEntry?: boolean },
  ): Promise<object | undefined> => operate("stat", path, () => calls.stat(path, options));

  async function readdir(
    path: string,
    options: { recursive?: boolean; withFileTypes?: boolean } = {},
  ): Promise<unknown[]> {
    const { recursive = false, withFileTypes = false } = options;
    const entries = await operate("readdir", path, () => calls.entriesIn(path));
    const inner: unknown[] = [];
    for (const entry of recursive ? entries.filter((each) => each.isDirectory()) : [])
      inner.push(...(await readdir(`${path}/${entry.name}`, options)));
    return [...entries.map((entry) => (withFileTypes ? entry : entry.name)), ...inner];
  }

  return {
    constants,
    open,
    stat,
    lstat: stat,
    readdir,
    unlink: (path: string) => operate("unlink", path, () => calls.unlink(path)),
    async rm(path: string, { force = false }: { force?: boolean } = {}) {
      try {
        await operate("unlink", path, () => calls.unlink(path));
      } catch (error) {
        if (!force || (error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
    },
    rename: (from: string, to: string) =>
      operate("rename", `${from} ${to}`, () => calls.rename(from, to)),
    link: (from: string, to: string) =>
      operate("link", `${from} ${to}`, () => calls.link(from, to)),
    mkdir: (path: string, options?: Parameters<SystemCalls["mkdir"]>[1]) =>
      operate("mkdir", path, () => calls.mkdir(path, options)),
    rmdir: (path: string) => operate("rmdir", path, () => calls.rmdir(path)),
    statfs: (path: string) => operate("statfs", path, () => calls.statfs()),
    opendir: (path: string) =>
      operate("opendir", path, () => {
        calls.entriesIn(path);
        return createDir(calls, operate, path, calls.open(path));
      }),
    realpath: (path: string) => operate("realpath", path, () => calls.realpath(path)),
    readlink: (path: string) => operate("readlink", path, () => calls.readlink(path)),
    writeFile: (
      path: string,
      text: string | Uint8Array,
      options?: { flag?: string; mode?: number },
    ) =>
      using(
        path,
        options?.flag ?? "w",
        async (handle) => {
          let rest = Buffer.from(text as string);
          while (rest.length > 0) rest = rest.subarray((await handle.writev([rest])).bytesWritten);
        },
        options?.mode,
      ),
    readFile: (path: string, encoding?: BufferEncoding) =>
      using(path, "r", (handle) => handle.readFile(encoding)),
    copyFile: (from: string, to: string) =>
      operate("copyFile", `${from} ${to}`, () => calls.copyFile(from, to)),
  };
}

/** An open folder, as `Dir`: its entries are those of the first read. */
function createDir(calls: SystemCalls, operate: Operate, path: string, fd: number): object {
  let entries: ReturnType<SystemCalls["entriesIn"]> | undefined;
  const dir = {
    read: () =>
      operate("readdir", path, () => {
        entries ??= calls.entriesOf(fd);
        return entries.shift() ?? null;
      }),
    close: () => operate("closedir", path, () => calls.close(fd)),
    async *[Symbol.asyncIterator]() {
      try {
        for (let entry = await dir.read(); entry; entry = await dir.read()) yield entry;
      } finally {
        await dir.close();
      }
    },
  };
  return dir;
}

function createCallbacks(
  disk: Disk,
  life: Life,
  calls: SystemCalls,
  operate: Operate,
  promises: ReturnType<typeof createPromises>,
): object {
  const open = (path: string, flags?: Bits, mode?: number): Promise<number> =>
    operate("open", path, () => calls.open(path, flags, mode));
  const close = (fd: number): Promise<void> =>
    operate("close", `descriptor ${fd}`, () => calls.close(fd));
  const fstat = (fd: number, options?: { bigint?: boolean }): Promise<object> =>
    operate("fstat", `descriptor ${fd}`, () => calls.fstat(fd, options));
  const readDescriptor = (
    ...[fd, into, from, length, position]: Parameters<SystemCalls["read"]>
  ): Promise<number> =>
    operate("read", `descriptor ${fd}`, () => calls.read(fd, into, from, length, position));
  const read = Object.assign(callbackify(readDescriptor), {
    [promisify.custom]: async (...args: Parameters<typeof readDescriptor>) => ({
      bytesRead: await readDescriptor(...args),
      buffer: args[1],
    }),
  });
  /** A call that does not wait may fail, too. */
  const now =
    <Args extends unknown[], T>(name: string, work: (...args: Args) => T) =>
    (...args: Args): T => {
      disk.fail(name, String(args[0]), life.name);
      return work(...args);
    };
  const realpath = callbackify(promises.realpath);
  const realpathSync = (path: string): string => calls.realpath(path);
  return {
    constants,
    promises,
    open: callbackify(open),
    close: callbackify(close),
    fstat: callbackify(fstat),
    read,
    lstat: callbackify(promises.lstat),
    stat: callbackify(promises.stat),
    opendir: callbackify(promises.opendir),
    readlink: callbackify(promises.readlink),
    realpath: Object.assign(realpath, { native: realpath }),
    openSync: now("open", (path: string, flags?: Bits) => calls.open(path, flags)),
    closeSync: (fd: number) => calls.close(fd),
    fstatSync: (fd: number, options?: { bigint?: boolean }) => calls.fstat(fd, options),
    lstatSync: (path: string, options?: { bigint?: boolean }) => calls.stat(path, options),
    statSync: (path: string, options?: { bigint?: boolean }) => calls.stat(path, options),
    statfsSync: () => calls.statfs(),
    readlinkSync: (path: string) => calls.readlink(path),
    realpathSync: Object.assign(realpathSync, { native: realpathSync }),
  };
}
