import { SluiceError } from "@sluice/core";
import type { ClientShare } from "./share.ts";

/** Counts bytes that are held in memory until a client has taken them. */
export interface ByteAccount {
  /** Bytes that are held. */
  readonly bytes: number;
  /** Opens a lease of nothing, on a share or on the whole account only. */
  open(share?: ClientShare): ByteLease;
}

/** Bytes that one response, or one connection, holds of an account. */
export interface ByteLease {
  /**
   * Holds this many more bytes. Throws `throttled` when the share is full and `unavailable` when the account is, and
   * then holds none of them. A lease that is the only one may exceed the limit. After `release`, `add` does nothing.
   */
  add(bytes: number): void;
  /** Holds this many fewer bytes. */
  sub(bytes: number): void;
  /** Gives all of it back. Idempotent. */
  release(): void;
}

/** Makes an account with a maximum of bytes in all. */
export function createByteAccount(maxBytes: number): ByteAccount {
  const heldBytes = new Map<string, number>();
  let total = 0;

  function change(name: string | undefined, bytes: number): void {
    total += bytes;
    if (name === undefined) return;
    const now = (heldBytes.get(name) ?? 0) + bytes;
    if (now === 0) heldBytes.delete(name);
    else heldBytes.set(name, now);
  }

  return {
    get bytes() {
      return total;
    },
    open(share) {
      const name = share?.name;
      let leaseBytes = 0;
      let isOpen = true;
      const isOver = (others: number, more: number, most: number): boolean =>
        others > 0 && others + leaseBytes + more > most;
      return {
        add(bytes) {
          if (!isOpen) return;
          if (share && isOver((heldBytes.get(share.name) ?? 0) - leaseBytes, bytes, share.limit))
            throw new SluiceError("throttled", "sluice: too many bytes wait for one client", {
              retryAfterMs: 1_000,
            });
          if (isOver(total - leaseBytes, bytes, maxBytes))
            throw new SluiceError("unavailable", "sluice: too many bytes wait for clients", {
              retryAfterMs: 1_000,
            });
          leaseBytes += bytes;
          change(name, bytes);
        },
        sub(bytes) {
          if (!isOpen) return;
          const less = Math.min(bytes, leaseBytes);
          leaseBytes -= less;
          change(name, -less);
        },
        release() {
          if (!isOpen) return;
          isOpen = false;
          change(name, -leaseBytes);
          leaseBytes = 0;
        },
      };
    },
  };
}
