import { SluiceError } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import type { OpenSlot } from "../slots/slot-token.ts";
import { uploadsOrigin } from "../slots/upload-error.ts";

/** A request whose body needs room. */
interface RoomRequest {
  readonly slot: OpenSlot;
  readonly signal: AbortSignal;
  /** Called with the bytes of each chunk that came. */
  readonly onBytes: (count: number) => void;
}

/** Below this, storage is not asked: if the bytes do not fit, writing them fails. */
const fewBytes = 1024 * 1024;

/**
 * Room in a storage for the bodies that this process takes. A storage that does not know how much is free has room for
 * everything.
 */
export class StorageRoom {
  readonly #freeBytes: StorageBackend["freeBytes"];
  /** In order of arrival: a request counts only those before it. */
  readonly #booked = new Set<{ bytes: number }>();

  constructor({ freeBytes }: Pick<StorageBackend, "freeBytes">) {
    this.#freeBytes = freeBytes;
  }

  /**
   * Books room for the bytes of a file that are to come, while `work` runs with a request that counts them off. Rejects
   * with `no_space` before the body is read if they do not fit besides what others have booked.
   */
  async during<Request extends RoomRequest, T>(
    request: Request,
    bytes: number | undefined = 0,
    work: (request: Request) => Promise<T>,
  ): Promise<T> {
    const freeBytes = this.#freeBytes;
    const { maxBytes, maxFiles } = request.slot.terms;
    // a file that is too large is refused by `work`, for its size
    const isTooLarge = bytes > maxBytes * maxFiles;
    if (!freeBytes || bytes < fewBytes || isTooLarge) return work(request);
    const booking = { bytes };
    let before = 0;
    for (const other of this.#booked) before += other.bytes;
    this.#booked.add(booking);
    try {
      const free = await freeBytes({ signal: request.signal });
      if (free !== undefined && bytes > free - before)
        throw new SluiceError(
          "no_space",
          `uploads: a file needs ${bytes} bytes of storage; ${free} are free, ${before} of them for files that are coming`,
          // if it would fit without the bookings of others, a retry is worth it: those may never come
          bytes > free ? {} : { retryAfterMs: 60_000 },
        );
      const onBytes = (count: number): void => {
        booking.bytes = Math.max(0, booking.bytes - count);
        request.onBytes(count);
      };
      return await work({ ...request, onBytes });
    } finally {
      this.#booked.delete(booking);
    }
  }
}

/**
 * Whether storage cannot hold the file: it has no room, or takes none of this size. False for the quota of an owner,
 * and for room that others have booked.
 */
export function exceedsStorage(error: unknown): boolean {
  if (!SluiceError.is(error) || error.origin === uploadsOrigin || error.retryAfterMs !== undefined)
    return false;
  return error.code === "no_space" || error.code === "too_large";
}
