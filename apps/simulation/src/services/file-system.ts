import { constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import type { Life } from "../process/machine.ts";
import { type Disk, type Node, systemError } from "./disk.ts";

/** Descriptors are numbers of the process. */
interface OpenFile {
  readonly node: Node;
  readonly path: string;
}

type ReadDone = (error: unknown, bytesRead?: number, buffer?: Uint8Array) => void;

const flagsOf: Readonly<Record<string, number>> = {
  r: constants.O_RDONLY,
  "r+": constants.O_RDWR,
  w: constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC,
  wx: constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
};

/** The parts of `node:fs` and `node:fs/promises` that the product uses, over a simulated disk, for one process. */
export function createFileSystem(
  disk: Disk,
  life: Life,
): { readonly module: object; readonly promises: object } {
  const files = new Map<number, OpenFile>();
  let lastDescriptor = 10;
  const operate = <T>(name: string, path: string, work: () => T): Promise<T> =>
    disk.operate(life, name, path, work);

  function handleOf({ node, path }: OpenFile, fd: number): object {
    const handle = {
      fd,
      stat: (options?: { bigint?: boolean }) =>
        operate("fstat", path, () => statsOf(node, options?.bigint)),
      writev: (chunks: readonly Uint8Array[], position?: number) =>
        operate("writev", path, () => {
          const bytesWritten = disk.write(
            node,
            Buffer.concat(chunks),
            position ?? node.bytes.length,
            path,
          );
          node.modifiedMs = life.wallMs();
          return { bytesWritten, buffers: chunks };
        }),
      write: (bytes: Uint8Array, from = 0, length = bytes.length - from, position?: number) =>
        handle.writev([bytes.subarray(from, from + length)], position),
      read: (into: Uint8Array, from: number, length: number, position: number) =>
        operate("read", path, () => ({
          bytesRead: readInto(node, into, from, length, position),
          buffer: into,
        })),
      readFile: (encoding?: BufferEncoding | { encoding?: BufferEncoding }) =>
        operate("read", path, () => contentOf(node, encoding)),
      truncate: (length = 0) => operate("ftruncate", path, () => disk.resize(node, length)),
      chmod: (mode: number) => operate("fchmod", path, () => void (node.mode = mode)),
      utimes: (_accessed: unknown, modified: Date | number) =>
        operate("futimes", path, () => void (node.modifiedMs = Number(modified))),
      sync: () => operate("sync", path, () => disk.sync(node)),
      datasync: () => operate("datasync", path, () => void (node.isFolder || disk.sync(node))),
      close: () => operate("close", path, () => void files.delete(fd)),
      // those of Node are emitters
      on: () => handle,
      [Symbol.asyncDispose]: () => handle.close(),
    };
    return handle;
  }

  async function open(
    given: string,
    flags: string | number = "r",
    mode = 0o666,
  ): Promise<ReturnType<typeof handleOf>> {
    const path = resolve(given);
    const bits = typeof flags === "string" ? (flagsOf[flags] ?? 0) : flags;
    return operate("open", path, () => {
      let node = disk.find(path);
      if (node && bits & constants.O_CREAT && bits & constants.O_EXCL)
        throw systemError("EEXIST", "open", path);
      if (!node) {
        if (!(bits & constants.O_CREAT)) throw systemError("ENOENT", "open", path);
        node = disk.create(mode & ~0o22);
        node.modifiedMs = life.wallMs();
        disk.link(path, node, "open");
      }
      if (bits & constants.O_TRUNC) disk.resize(node, 0);
      const fd = lastDescriptor++;
      files.set(fd, { node, path });
      return handleOf({ node, path }, fd);
    });
  }

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

  const stat = (path: string, options?: { bigint?: boolean }): Promise<object> =>
    operate("stat", resolve(path), () => statsOf(disk.at(resolve(path), "stat"), options?.bigint));
  const promises = {
    constants,
    open,
    stat,
    lstat: stat,
    unlink: (path: string) =>
      operate("unlink", path, () => {
        disk.at(path, "unlink").links -= 1;
        disk.unlink(path, "unlink");
      }),
    rename: (from: string, to: string) =>
      operate("rename", `${from} ${to}`, () => {
        const node = disk.at(from, "rename");
        if (node.isFolder) throw systemError("ENOSYS", "rename", from);
        disk.link(to, node, "rename");
        disk.unlink(from, "rename");
      }),
    link: (from: string, to: string) =>
      operate("link", `${from} ${to}`, () => {
        const node = disk.at(from, "link");
        if (disk.find(to)) throw systemError("EEXIST", "link", to);
        node.links += 1;
        disk.link(to, node, "link");
      }),
    mkdir: (given: string, options?: { recursive?: boolean; mode?: number }) =>
      operate("mkdir", given, () => {
        const path = resolve(given);
        if (disk.find(path)) {
          if (options?.recursive) return;
          throw systemError("EEXIST", "mkdir", path);
        }
        const mode = options?.mode ?? 0o755;
        for (const folder of options?.recursive ? foldersAbove(path) : [])
          if (!disk.find(folder)) disk.link(folder, disk.create(mode, true), "mkdir");
        disk.link(path, disk.create(mode, true), "mkdir");
      }),
    rmdir: (path: string) =>
      operate("rmdir", path, () => {
        if (disk.namesIn(path).length > 0) throw systemError("ENOTEMPTY", "rmdir", path);
        disk.unlink(path, "rmdir");
      }),
    statfs: (path: string) =>
      operate("statfs", path, () => ({
        bavail: Number.isFinite(disk.freeBytes) ? disk.freeBytes : 2 ** 40,
        bsize: 1,
      })),
    readdir: (path: string) =>
      operate("readdir", path, () => disk.namesIn(disk.at(path, "readdir") && path)),
    opendir: (path: string) =>
      operate("opendir", path, () => {
        disk.at(path, "opendir");
        const entries = disk.namesIn(path).map((name) => ({ name, isFile: () => true }));
        return {
          async *[Symbol.asyncIterator]() {
            yield* entries;
          },
        };
      }),
    realpath: async (path: string) => resolve(path),
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
      operate("copyFile", `${from} ${to}`, () => {
        if (disk.find(to)) throw systemError("EEXIST", "copyFile", to);
        const node = disk.create(disk.at(from, "copyFile").mode);
        disk.link(to, node, "copyFile");
        disk.write(node, disk.at(from, "copyFile").bytes, 0, to);
      }),
  };

  function readDescriptor(
    fd: number,
    into: Uint8Array,
    from: number,
    length: number,
    position: number,
  ): Promise<number> {
    return operate("read", `descriptor ${fd}`, () => {
      const file = files.get(fd);
      if (!file) throw systemError("EBADF", "read", String(fd));
      return readInto(file.node, into, from, length, position);
    });
  }
  function read(
    fd: number,
    into: Uint8Array,
    from: number,
    length: number,
    position: number,
    done: ReadDone,
  ): void {
    // oxlint-disable promise/no-callback-in-promise -- the call of Node has one
    readDescriptor(fd, into, from, length, position).then(
      (bytesRead) => done(null, bytesRead, into),
      (error: unknown) => done(error),
    );
    // oxlint-enable promise/no-callback-in-promise
  }
  Object.assign(read, {
    [promisify.custom]: async (...args: Parameters<typeof readDescriptor>) => ({
      bytesRead: await readDescriptor(...args),
      buffer: args[1],
    }),
  });
  return { promises, module: { constants, read, promises } };
}

function statsOf(node: Node, isBig: boolean | undefined): object {
  const number = (value: number): number | bigint => (isBig ? BigInt(Math.floor(value)) : value);
  return {
    isFile: () => !node.isFolder,
    isDirectory: () => node.isFolder,
    isSymbolicLink: () => false,
    size: number(node.bytes.length),
    mode: number(node.mode | (node.isFolder ? constants.S_IFDIR : constants.S_IFREG)),
    uid: number(1000),
    gid: number(1000),
    nlink: number(node.links),
    dev: number(1),
    ino: number(node.id),
    mtimeMs: number(node.modifiedMs),
    ctimeMs: number(node.modifiedMs),
    mtime: new Date(node.modifiedMs),
    ...(isBig && {
      mtimeNs: BigInt(node.modifiedMs) * 1_000_000n,
      ctimeNs: BigInt(node.modifiedMs) * 1_000_000n,
    }),
  };
}

/** From the outermost on. */
function foldersAbove(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [...foldersAbove(parent), parent];
}

function readInto(
  node: Node,
  into: Uint8Array,
  from: number,
  length: number,
  position: number,
): number {
  return node.bytes.copy(into, from, position, Math.min(node.bytes.length, position + length));
}

function contentOf(
  node: Node,
  encoding?: BufferEncoding | { encoding?: BufferEncoding },
): Buffer | string {
  const name = typeof encoding === "object" ? encoding.encoding : encoding;
  return name ? node.bytes.toString(name) : Buffer.from(node.bytes);
}
