import { createSha256 } from "@sluice/core";
import { createThreadHash } from "./thread-hash.ts";

/** A SHA-256 over a file as it comes. */
export interface FileHash {
  /** Adds bytes. A promise means that the next ones have to wait. */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** Lower-case hex. Call it once, last. */
  digest(): Promise<string>;
  /** Lets go of it without a result. */
  stop(): void;
}

/** From here on hashing beside the transfer is worth a copy of the bytes. */
const largeBytes = 16 * 1024 * 1024;

/** Starts a hash for a file of about so many bytes: for a large one in a thread, where there are threads. */
export function createFileHash(expectedBytes: number | undefined): FileHash {
  const threaded = (expectedBytes ?? 0) >= largeBytes ? createThreadHash() : undefined;
  if (threaded) return threaded;
  const hash = createSha256();
  return {
    update(chunk) {
      hash.update(chunk);
      return undefined;
    },
    digest: async () => hash.digest(),
    stop() {},
  };
}
