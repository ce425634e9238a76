import { constants } from "node:fs";
import { dirname } from "node:path";
import type { Life } from "../process/machine.ts";
import type { Faults } from "../world/faults.ts";
import type { Random } from "../world/random.ts";
import type { World } from "../world/world.ts";

/** A file or a folder. */
export interface Node {
  readonly id: number;
  readonly isFolder: boolean;
  bytes: Buffer;
  /** What a power loss leaves for sure. */
  durable: Buffer;
  mode: number;
  /** Unix milliseconds of its last write, which a process may set to another time. */
  modifiedMs: number;
  /** Unix milliseconds of the last change of it or of its names. */
  changedMs: number;
}

/**
 * A disk that processes of one host share. It remembers apart what would outlast a power loss: bytes and names are
 * durable after a sync, and before that perhaps.
 */
export class Disk {
  readonly #world: World;
  readonly #faults: Faults;
  readonly #random: Random;
  readonly #nodes: Map<string, Node> = new Map();
  /** Takes back each change of a name that is not durable. */
  #unsynced: (() => void)[] = [];
  #lastId = 0;
  /** Greatest time of an operation, in milliseconds. */
  slownessMs = 0.4;
  /** Bytes that still fit. */
  freeBytes = Infinity;
  /** A file system of this machine's own disk. Others, as those of a network, may wait at each look. */
  isLocal = true;
  /** Descriptors have names, in `/proc/self/fd`. */
  hasProc = false;
  /** Files and folders that processes have open. */
  readonly #opened: Map<Life, number> = new Map();

  constructor(world: World, faults: Faults) {
    this.#world = world;
    this.#faults = faults;
    this.#random = world.random("disk");
    for (const path of ["/", "/tmp"]) this.#nodes.set(path, this.create(0o755, true));
  }

  /** Does one operation after some time. Those of a process that was killed are never done. */
  operate<T>(life: Life, name: string, path: string, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#world.after(
        this.#random.next() * this.slownessMs,
        () => {
          try {
            this.fail(name, path, life.name);
            const result = work();
            this.#world.log(`${life.name} ${name} ${path}`);
            resolve(result);
          } catch (error) {
            this.#world.log(
              `${life.name} ${name} ${path}: ${(error as NodeJS.ErrnoException).code}`,
            );
            reject(error);
          }
        },
        life,
      );
    });
  }

  /** Throws if the disk breaks down under an operation. */
  fail(operation: string, path: string, place: string): void {
    if (breakable.has(operation) && this.#faults.strike("disk fails", place))
      throw systemError("EIO", operation, path);
  }

  find(path: string): Node | undefined {
    return this.#nodes.get(path);
  }

  /** A path of a node, the last known one if it still has it; `undefined` once it has no name. */
  pathOf(node: Node, lastPath: string): string | undefined {
    if (this.#nodes.get(lastPath) === node) return lastPath;
    for (const [path, named] of this.#nodes) if (named === node) return path;
    return undefined;
  }

  linksOf(node: Node): number {
    let links = 0;
    for (const named of this.#nodes.values()) if (named === node) links += 1;
    return links;
  }

  countOpen(life: Life, change: number): void {
    this.#opened.set(life, this.openFiles(life) + change);
  }

  /** Files and folders that a process has open. */
  openFiles(life: Life): number {
    return this.#opened.get(life) ?? 0;
  }

  /** The node of a path; throws if there is none. */
  at(path: string, operation: string): Node {
    const node = this.#nodes.get(path);
    if (!node) throw systemError("ENOENT", operation, path);
    return node;
  }

  create(mode: number, isFolder = false): Node {
    const id = ++this.#lastId;
    return {
      id,
      isFolder,
      bytes: Buffer.alloc(0),
      durable: Buffer.alloc(0),
      mode,
      modifiedMs: 0,
      changedMs: 0,
    };
  }

  /** Gives a node a name, in place of another one that had it. */
  link(path: string, node: Node, operation: string): void {
    if (!this.at(dirname(path), operation).isFolder) throw systemError("ENOTDIR", operation, path);
    const before = this.#nodes.get(path);
    this.#nodes.set(path, node);
    this.#unsynced.push(() => {
      if (before) this.#nodes.set(path, before);
      else this.#nodes.delete(path);
    });
  }

  unlink(path: string, operation: string): void {
    const node = this.at(path, operation);
    this.#nodes.delete(path);
    this.#unsynced.push(() => this.#nodes.set(path, node));
  }

  namesIn(folder: string): string[] {
    const names: string[] = [];
    for (const path of this.#nodes.keys())
      if (path !== "/" && dirname(path) === folder)
        names.push(path.slice(folder === "/" ? 1 : folder.length + 1));
    return names;
  }

  /** Paths of all files. */
  files(): string[] {
    return [...this.#nodes].filter(([, node]) => !node.isFolder).map(([path]) => path);
  }

  /** Writes as much as fits, or less; gives how much. */
  write(node: Node, bytes: Uint8Array, at: number, place: string): number {
    const short = bytes.length > 1 ? this.#faults.strike("short write", place) : undefined;
    const wanted = short ? short.int(1, bytes.length - 1) : bytes.length;
    const growth = Math.max(0, at + wanted - node.bytes.length);
    const length = growth > this.freeBytes ? wanted - growth + this.freeBytes : wanted;
    if (length <= 0 && bytes.length > 0) {
      this.#world.count("disk full");
      throw systemError("ENOSPC", "write", place);
    }
    this.freeBytes -= Math.max(0, at + length - node.bytes.length);
    const after = Buffer.alloc(Math.max(node.bytes.length, at + length));
    node.bytes.copy(after);
    after.set(bytes.subarray(0, length), at);
    node.bytes = after;
    return length;
  }

  /** How many of the bytes that could be read one call gives. */
  readable(bytes: number, place: string): number {
    const short = bytes > 1 ? this.#faults.strike("short read", place) : undefined;
    return short ? short.int(1, bytes - 1) : bytes;
  }

  resize(node: Node, length: number): void {
    this.freeBytes += Math.max(0, node.bytes.length - length);
    const after = Buffer.alloc(length);
    node.bytes.copy(after);
    node.bytes = after;
  }

  sync(node: Node): void {
    if (node.isFolder) this.#unsynced = [];
    else node.durable = Buffer.from(node.bytes);
  }

  /** The machine loses its power: names are as at some moment since the last sync, bytes are kept, torn or lost. */
  losePower(random: Random): void {
    const kept = random.int(0, this.#unsynced.length);
    for (const undo of this.#unsynced.splice(kept).toReversed()) undo();
    this.#unsynced = [];
    for (const node of new Set(this.#nodes.values())) {
      if (node.isFolder) continue;
      const fate = random.pick(["lost", "torn", "kept"]);
      if (fate === "lost") node.bytes = node.durable;
      if (fate === "torn") node.bytes = tornOf(node, random.int(0, node.bytes.length));
      node.durable = Buffer.from(node.bytes);
    }
    this.#world.log("the disk lost power");
  }
}

/** Up to some byte the new content, then the durable one: a size never counts bytes that are not there. */
function tornOf({ bytes, durable }: Node, at: number): Buffer {
  return Buffer.concat([bytes.subarray(0, at), durable.subarray(at, bytes.length)]);
}

/** Operations that a broken disk refuses. */
const breakable = new Set([
  "open",
  "read",
  "write",
  "writev",
  "sync",
  "datasync",
  "rename",
  "link",
  "unlink",
]);

export function systemError(code: string, operation: string, path: string): NodeJS.ErrnoException {
  const { O_RDONLY } = constants;
  return Object.assign(new Error(`${code}: ${operation} '${path}'`), {
    code,
    syscall: operation,
    path,
    errno: -1 - O_RDONLY,
  });
}
