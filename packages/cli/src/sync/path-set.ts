import { createHash } from "node:crypto";
import { pathKey } from "@sluice/client/internal";

/**
 * Which paths were seen, of millions: 64 bits of a digest each, so at most 32 bytes. Two paths with the same bits count as one: of
 * a million files that has a chance of one in ten million, and then a file is refused or not deleted.
 */
export class PathSet {
  #slots = new BigUint64Array(1_024);
  #count = 0;

  /** Adds a path; false if it was there. */
  add(path: string): boolean {
    if (2 * this.#count >= this.#slots.length) this.#grow();
    const digest = digestOf(path);
    const slot = this.#slotOf(digest);
    if (this.#slots[slot] === digest) return false;
    this.#slots[slot] = digest;
    this.#count += 1;
    return true;
  }

  has(path: string): boolean {
    const digest = digestOf(path);
    return this.#slots[this.#slotOf(digest)] === digest;
  }

  /** The slot with a digest, or the free one for it. */
  #slotOf(digest: bigint): number {
    const mask = this.#slots.length - 1;
    let slot = Number(digest & BigInt(mask));
    while (this.#slots[slot] !== 0n && this.#slots[slot] !== digest) slot = (slot + 1) & mask;
    return slot;
  }

  #grow(): void {
    const digests = this.#slots;
    this.#slots = new BigUint64Array(2 * digests.length);
    for (const digest of digests) if (digest !== 0n) this.#slots[this.#slotOf(digest)] = digest;
  }
}

/** Never 0, which marks a free slot. */
function digestOf(path: string): bigint {
  return createHash("sha256").update(pathKey(path)).digest().readBigUInt64LE() || 1n;
}
