import type { Disk, Node } from "../services/disk.ts";
import type { Random } from "../world/random.ts";
import { epochMs, type World } from "../world/world.ts";

/** Bytes of a file that another program changes, and until when it had them. */
interface ForeignState {
  readonly node: Node;
  readonly bytes: Buffer;
  until: number;
}

/** Most bytes that another program writes at once. */
const maxPieceBytes = 9_000;

const sizes = [0, 1, 3_000, 30_000, 60_000] as const;

/** Files of a folder that another program changes, in place or by new ones. */
export class ForeignFiles {
  readonly #world: World;
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #states: Map<string, ForeignState[]> = new Map();

  constructor(world: World, disk: Disk, folder: string) {
    this.#world = world;
    this.#disk = disk;
    this.#folder = folder;
  }

  get keys(): readonly string[] {
    return [...this.#states.keys()];
  }

  has(key: string): boolean {
    return this.#states.has(key);
  }

  /** Another program changes a file: in place, by a new one with its name, or it removes it. */
  change(key: string, random: Random): void {
    const world = this.#world;
    const path = `${this.#folder}/${key}`;
    const node = this.#disk.find(path);
    const how = random.pick(["in place", "in place", "replaced", "removed"] as const);
    world.tell(`another program changes ${key}: ${how}`);
    if (node && how === "in place") {
      if (random.chance(0.3)) this.#disk.resize(node, random.int(0, node.bytes.length));
      this.#note(key, node);
      const pieces = random.int(1, 4);
      for (let piece = 0; piece < pieces; piece++)
        world.after(piece * random.pick([0.3, 5, 200]), () => {
          if (this.#disk.freeBytes < maxPieceBytes) return;
          const bytes = random.fillBytes(Buffer.alloc(random.int(1, maxPieceBytes)));
          this.#disk.write(node, bytes, random.int(0, node.bytes.length), path);
          this.#note(key, node);
        });
      return;
    }
    for (const state of this.#states.get(key) ?? [])
      if (state.node === node) state.until = Math.min(state.until, world.now);
    if (node) node.changedMs = this.#wallMs();
    if (node && how === "removed") return this.#disk.unlink(path, "unlink");
    const made = this.#disk.create(0o644);
    made.bytes = random.fillBytes(Buffer.alloc(random.pick(sizes)));
    this.#disk.link(path, made, "rename");
    this.#note(key, made);
  }

  /** A file of another program has new bytes. */
  #note(key: string, node: Node): void {
    const now = this.#wallMs();
    node.modifiedMs = now;
    node.changedMs = now;
    const states = this.#states.get(key) ?? [];
    for (const state of states)
      if (state.node === node) state.until = Math.min(state.until, this.#world.now);
    states.push({ node, bytes: Buffer.from(node.bytes), until: Infinity });
    this.#states.set(key, states);
  }

  /** Contents that a file had since a moment, also those that are gone by now. */
  statesOf(key: string, from: number): readonly Buffer[] {
    return this.#states
      .get(key)!
      .filter(({ until }) => until >= from)
      .map(({ bytes }) => bytes);
  }

  #wallMs(): number {
    return Math.floor(epochMs + this.#world.now);
  }

  /** A power loss changed files of others, too. */
  powerLost(): void {
    for (const key of this.#states.keys()) {
      const node = this.#disk.find(`${this.#folder}/${key}`);
      if (node) this.#note(key, node);
    }
  }
}
