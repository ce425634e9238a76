import { createSha256 } from "@sluice/core";
import { createThreadHash, type FileHash } from "./thread-hash.ts";

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
