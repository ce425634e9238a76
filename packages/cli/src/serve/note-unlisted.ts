import { definedMembers } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import { formatUnlisted, UnlistedTally } from "@sluice/storage/internal";

/** Longest look at a folder: about 300,000 files. */
const maxMs = 10_000;

/**
 * Goes over all of a folder, and writes a line about what is in no list. A folder that takes longer than 10 s is told as far
 * as it was looked at. `signal` ends the look without a line.
 */
export async function noteUnlisted(
  storage: Pick<StorageBackend, "list">,
  write: (line: string) => void,
  signal: AbortSignal,
  timeoutMs: number = maxMs,
): Promise<void> {
  const tally = new UnlistedTally();
  const look = { signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]) };
  let isCut = false;
  try {
    let cursor: string | undefined;
    do {
      const page = await storage.list({ ...look, ...definedMembers({ cursor }) });
      tally.addAll(page.unlisted);
      ({ cursor } = page);
    } while (cursor !== undefined);
  } catch {
    // a list of the folder reports the fault
    isCut = true;
  }
  const counts = tally.take();
  if (counts && !signal.aborted) write(`  ${formatUnlisted(counts)}${isCut ? ", so far" : ""}`);
}
