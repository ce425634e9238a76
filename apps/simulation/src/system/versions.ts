import { createHash } from "node:crypto";
import type { MemoryBackend } from "@sluice/storage";
import type { Random } from "../world/random.ts";
import type { World } from "../world/world.ts";

/** Objects whose content changes, and all contents that they ever had. */
export class Versions {
  readonly #world: World;
  readonly #objects: MemoryBackend;
  readonly #all: Map<string, Buffer[]> = new Map();

  constructor(world: World, objects: MemoryBackend) {
    this.#world = world;
    this.#objects = objects;
  }

  get keys(): readonly string[] {
    return [...this.#all.keys()];
  }

  /** Gives an object new content; storage tells its digest or does not. */
  put(key: string, size: number, random: Random): void {
    const bytes = random.fillBytes(Buffer.alloc(size));
    const versions = this.#all.get(key) ?? [];
    versions.push(bytes);
    this.#all.set(key, versions);
    const hasDigest = random.chance(0.5);
    this.#objects.put(key, bytes, {
      contentType: "application/octet-stream",
      ...(!hasDigest && { digests: {} }),
    });
    this.#world.tell(
      `${key} has version ${versions.length}, ${size} bytes${hasDigest ? " with a digest" : ""}`,
    );
  }

  /** Number of the version that these bytes are, from 1. */
  find(key: string, bytes: Buffer): number | undefined {
    const at = this.#all.get(key)?.findLastIndex((version) => version.equals(bytes)) ?? -1;
    return at < 0 ? undefined : at + 1;
  }

  /** The content that an object has now. */
  latest(key: string): Buffer {
    return this.#all.get(key)!.at(-1)!;
  }
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
