import { constants } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Life } from "../process/machine.ts";
import { type Disk, type Node, systemError } from "./disk.ts";

/** What a descriptor, which is a number of the process, has open. */
interface OpenFile {
  readonly node: Node;
  /** Where it was opened. */
  readonly path: string;
}

interface MakeFolder {
  readonly recursive?: boolean;
  readonly mode?: number;
}

const flagsOf: Readonly<Record<string, number>> = {
  r: constants.O_RDONLY,
  "r+": constants.O_RDWR,
  w: constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC,
  wx: constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
};

/** What the kernel does for one process: each call at once, on a simulated disk. There are no links that lead to other names. */
export class SystemCalls {
  readonly #disk: Disk;
  readonly #life: Life;
  readonly #files: Map<number, OpenFile> = new Map();
  #lastDescriptor = 10;

  constructor(disk: Disk, life: Life) {
    this.#disk = disk;
    this.#life = life;
  }

  /** The path that a path stands for: those below `/proc/self/fd` lead through a descriptor. */
  locate(given: string): string {
    const path = resolve(given);
    const [, fd, rest = ""] = /^\/proc\/self\/fd\/(\d+)(\/.*)?$/.exec(path) ?? [];
    if (fd === undefined) return path;
    const folder = this.#disk.hasProc && this.#nameOf(Number(fd));
    if (!folder) throw systemError("ENOENT", "open", path);
    return folder + rest;
  }

  open(given: string, flags: string | number = "r", mode = 0o666): number {
    const path = this.locate(given);
    const bits = typeof flags === "string" ? (flagsOf[flags] ?? 0) : flags;
    let node = this.#disk.find(path);
    if (node && bits & constants.O_CREAT && bits & constants.O_EXCL)
      throw systemError("EEXIST", "open", path);
    if (node && !node.isFolder && bits & constants.O_DIRECTORY)
      throw systemError("ENOTDIR", "open", path);
    if (!node) {
      if (!(bits & constants.O_CREAT)) throw systemError("ENOENT", "open", path);
      node = this.#disk.create(mode & ~0o22);
      this.#changed(node, true);
      this.#disk.link(path, node, "open");
    }
    if (bits & constants.O_TRUNC) this.#resize(node, 0);
    const fd = this.#lastDescriptor++;
    this.#files.set(fd, { node, path });
    this.#disk.countOpen(this.#life, 1);
    return fd;
  }

  close(fd: number): void {
    this.#opened(fd);
    this.#files.delete(fd);
    this.#disk.countOpen(this.#life, -1);
  }

  fstat(fd: number, options?: { bigint?: boolean }): object {
    return this.#statsOf(this.#opened(fd).node, options?.bigint);
  }

  stat(
    given: string,
    options?: { bigint?: boolean; throwIfNoEntry?: boolean },
  ): object | undefined {
    const path = this.locate(given);
    if (options?.throwIfNoEntry === false && !this.#disk.find(path)) return undefined;
    return this.#statsOf(this.#disk.at(path, "stat"), options?.bigint);
  }

  read(fd: number, into: Uint8Array, from: number, length: number, position: number): number {
    const { node, path } = this.#opened(fd);
    const wanted = Math.max(0, Math.min(length, node.bytes.length - position));
    const end = position + this.#disk.readable(wanted, path);
    return node.bytes.copy(into, from, position, end);
  }

  readAll(fd: number, encoding?: BufferEncoding | { encoding?: BufferEncoding }): Buffer | string {
    const { node } = this.#opened(fd);
    const name = typeof encoding === "object" ? encoding.encoding : encoding;
    return name ? node.bytes.toString(name) : Buffer.from(node.bytes);
  }

  /** At the end without a position. Gives how many bytes were written. */
  write(fd: number, bytes: Uint8Array, position?: number): number {
    const { node, path } = this.#opened(fd);
    const written = this.#disk.write(node, bytes, position ?? node.bytes.length, path);
    this.#changed(node, true);
    return written;
  }

  truncate(fd: number, length = 0): void {
    this.#resize(this.#opened(fd).node, length);
  }

  chmod(fd: number, mode: number): void {
    const { node } = this.#opened(fd);
    node.mode = mode;
    this.#changed(node);
  }

  utimes(fd: number, modified: Date | number): void {
    const { node } = this.#opened(fd);
    node.modifiedMs = Number(modified);
    this.#changed(node);
  }

  sync(fd: number): void {
    this.#disk.sync(this.#opened(fd).node);
  }

  /** Names are made durable only by a sync of their folder. */
  datasync(fd: number): void {
    const { node } = this.#opened(fd);
    if (!node.isFolder) this.#disk.sync(node);
  }

  unlink(given: string): void {
    const path = this.locate(given);
    const node = this.#disk.at(path, "unlink");
    if (node.isFolder) throw systemError("EISDIR", "unlink", path);
    this.#disk.unlink(path, "unlink");
    this.#changed(node);
  }

  rename(given: string, givenTo: string): void {
    const from = this.locate(given);
    const to = this.locate(givenTo);
    const node = this.#disk.at(from, "rename");
    if (node.isFolder) throw systemError("ENOSYS", "rename", from);
    const replaced = this.#disk.find(to);
    if (replaced?.isFolder) throw systemError("EISDIR", "rename", to);
    // POSIX: two names of one file both stay
    if (replaced === node) return;
    this.#disk.link(to, node, "rename");
    this.#disk.unlink(from, "rename");
    this.#changed(node);
    if (replaced) this.#changed(replaced);
  }

  link(given: string, givenTo: string): void {
    const to = this.locate(givenTo);
    const node = this.#disk.at(this.locate(given), "link");
    if (this.#disk.find(to)) throw systemError("EEXIST", "link", to);
    this.#disk.link(to, node, "link");
    this.#changed(node);
  }

  mkdir(given: string, options?: number | MakeFolder): void {
    const path = this.locate(given);
    const { recursive = false, mode = 0o755 } =
      typeof options === "number" ? { mode: options } : (options ?? {});
    if (this.#disk.find(path)) {
      if (recursive) return;
      throw systemError("EEXIST", "mkdir", path);
    }
    for (const folder of recursive ? foldersAbove(path) : [])
      if (!this.#disk.find(folder)) this.#disk.link(folder, this.#disk.create(mode, true), "mkdir");
    this.#disk.link(path, this.#disk.create(mode, true), "mkdir");
  }

  rmdir(given: string): void {
    const path = this.locate(given);
    if (!this.#disk.at(path, "rmdir").isFolder) throw systemError("ENOTDIR", "rmdir", path);
    if (this.#disk.namesIn(path).length > 0) throw systemError("ENOTEMPTY", "rmdir", path);
    this.#disk.unlink(path, "rmdir");
  }

  statfs(): object {
    const { isLocal, freeBytes } = this.#disk;
    const bavail = Number.isFinite(freeBytes) ? freeBytes : 2 ** 40;
    return { type: isLocal ? extType : nfsType, blocks: 2 ** 40, bavail, bsize: 1 };
  }

  /** Entries of a folder, as it is now. */
  entriesIn(given: string): Entry[] {
    const path = this.locate(given);
    if (!this.#disk.at(path, "opendir").isFolder) throw systemError("ENOTDIR", "opendir", path);
    return this.#disk
      .namesIn(path)
      .map((name) => new Entry(given, name, this.#disk.at(resolve(path, name), "opendir")));
  }

  /** Entries of an open folder; none if it was removed. */
  entriesOf(fd: number): Entry[] {
    const path = this.#nameOf(fd);
    return path === undefined ? [] : this.entriesIn(path);
  }

  copyFile(given: string, givenTo: string): void {
    const from = this.#disk.at(this.locate(given), "copyFile");
    const to = this.locate(givenTo);
    if (this.#disk.find(to)) throw systemError("EEXIST", "copyFile", to);
    const node = this.#disk.create(from.mode);
    this.#disk.link(to, node, "copyFile");
    this.#disk.write(node, from.bytes, 0, to);
    this.#changed(node, true);
  }

  realpath(given: string): string {
    const path = this.locate(given);
    this.#disk.at(path, "realpath");
    return path;
  }

  /** Only the names of descriptors are links. */
  readlink(given: string): string {
    const [, fd] = /^\/proc\/self\/fd\/(\d+)$/.exec(given) ?? [];
    if (fd === undefined) throw systemError("EINVAL", "readlink", given);
    const { path } = this.#opened(Number(fd));
    if (!this.#disk.hasProc) throw systemError("ENOENT", "readlink", given);
    return this.#nameOf(Number(fd)) ?? `${path} (deleted)`;
  }

  #opened(fd: number): OpenFile {
    const file = this.#files.get(fd);
    if (!file) throw systemError("EBADF", "descriptor", String(fd));
    return file;
  }

  #nameOf(fd: number): string | undefined {
    const { node, path } = this.#opened(fd);
    return this.#disk.pathOf(node, path);
  }

  #changed(node: Node, isContent = false): void {
    node.changedMs = this.#life.wallMs();
    if (isContent) node.modifiedMs = node.changedMs;
  }

  #resize(node: Node, length: number): void {
    this.#disk.resize(node, length);
    this.#changed(node, true);
  }

  #statsOf(node: Node, isBig: boolean | undefined): object {
    const number = (value: number): number | bigint => (isBig ? BigInt(Math.floor(value)) : value);
    const { isFolder, bytes, mode, id, modifiedMs, changedMs } = node;
    return {
      isFile: () => !isFolder,
      isDirectory: () => isFolder,
      isSymbolicLink: () => false,
      size: number(bytes.length),
      mode: number(mode | (isFolder ? constants.S_IFDIR : constants.S_IFREG)),
      uid: number(1000),
      gid: number(1000),
      nlink: number(this.#disk.linksOf(node)),
      dev: number(1),
      ino: number(id),
      mtimeMs: number(modifiedMs),
      ctimeMs: number(changedMs),
      mtime: new Date(modifiedMs),
      ...(isBig && {
        mtimeNs: BigInt(modifiedMs) * 1_000_000n,
        ctimeNs: BigInt(changedMs) * 1_000_000n,
      }),
    };
  }
}

/** Types of `statfs`: ext4 and NFS. */
const extType = 0xef53;
const nfsType = 0x6969;

/** An entry of a folder, as `Dirent`. */
class Entry {
  readonly name: string;
  readonly parentPath: string;
  readonly #isFolder: boolean;

  constructor(parentPath: string, name: string, { isFolder }: Node) {
    this.parentPath = parentPath;
    this.name = name;
    this.#isFolder = isFolder;
  }

  isFile(): boolean {
    return !this.#isFolder;
  }

  isDirectory(): boolean {
    return this.#isFolder;
  }

  isSymbolicLink(): boolean {
    return false;
  }
}

/** From the outermost on. */
function foldersAbove(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [...foldersAbove(parent), parent];
}
