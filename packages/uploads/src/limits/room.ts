import { SluiceError } from "@sluice/core";
import type { UploadRequest } from "../receive/request-facts.ts";
import { uploadsOrigin } from "../slots/upload-error.ts";
import type { UploadStorage } from "../store/upload-storage.ts";

/** Room in storage for the bodies that this process takes. */
export interface Room {
  /**
   * Runs `work` with a request while the bytes that are to come of its file have room. Rejects with `no_space` before
   * the body is read when they do not fit beside what others have booked.
   */
  during<T>(
    request: UploadRequest,
    bytes: number | undefined,
    work: (request: UploadRequest) => Promise<T>,
  ): Promise<T>;
}

/** Fewer bytes than that are not worth a question: if they do not fit, writing them fails. */
const fewBytes = 1024 * 1024;

/** Makes the room of a storage. One that does not know how much is free has room for everything. */
export function createRoom({ freeBytes }: Pick<UploadStorage, "freeBytes">): Room {
  /** In the order in which they came: nobody gives way to a later one. */
  const booked = new Set<{ bytes: number }>();

  return {
    async during(request, bytes = 0, work) {
      const { maxBytes, maxFiles } = request.slot.terms;
      // what is too large is refused for that
      const isTooLarge = bytes > maxBytes * maxFiles;
      if (!freeBytes || bytes < fewBytes || isTooLarge) return work(request);
      const own = { bytes };
      let before = 0;
      for (const other of booked) before += other.bytes;
      booked.add(own);
      try {
        const free = await freeBytes({ signal: request.signal });
        if (free !== undefined && bytes > free - before)
          throw new SluiceError(
            "no_space",
            `uploads: a file needs ${bytes} bytes of storage; ${free} are free, ${before} of them for files that are coming`,
            // what others only announced may never come
            bytes > free ? {} : { retryAfterMs: 60_000 },
          );
        const onBytes = (count: number): void => {
          own.bytes = Math.max(0, own.bytes - count);
          request.onBytes(count);
        };
        return await work({ ...request, onBytes });
      } finally {
        booked.delete(own);
      }
    },
  };
}

/**
 * Whether storage cannot hold the file: it has no room, or takes none of this size. The quota of an owner is another reason, and
 * so is room that others have booked.
 */
export function exceedsStorage(error: unknown): boolean {
  if (!SluiceError.is(error) || error.origin === uploadsOrigin || error.retryAfterMs !== undefined)
    return false;
  return error.code === "no_space" || error.code === "too_large";
}
