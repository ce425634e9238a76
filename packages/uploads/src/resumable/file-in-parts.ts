import { createKindDetector } from "../checks/detect-kind.ts";
import type { FileSink } from "../store/file-sink.ts";
import { folderOf, type FilePlan } from "../store/layout.ts";
import type { SlotFiles } from "../store/slot-files.ts";
import type { UploadStorage } from "../store/upload-storage.ts";
import { createPartAppender } from "./append-parts.ts";
import type { FileAddress, PartialFile } from "./partial-file.ts";

/**
 * Opens a file whose parts are objects, for storages that write nothing in steps. `finish` reads all parts and joins
 * them: its digest is of what was read back, and the parts stay until they are removed.
 */
export function openFileInParts(
  { storage, files }: { readonly storage: UploadStorage; readonly files: SlotFiles },
  { slot, fileId, lease }: FileAddress,
  {
    plan,
    offset,
    parts,
  }: {
    readonly plan: FilePlan;
    readonly offset: number;
    /** Keys of those that are there, in order. */
    readonly parts: readonly string[];
  },
): PartialFile {
  const ensureOurs = (): void => lease.ensureOurs();
  const folder = folderOf(slot);
  const appender = createPartAppender(storage, { folder, fileId, offset, ensureOurs });
  // already as it comes, so that gigabytes of the wrong kind are not sent
  const detector = offset === 0 ? createKindDetector(plan, slot.terms.accept) : undefined;

  return {
    fileId,
    plan,
    get offset() {
      return appender.offset;
    },
    write(chunk) {
      const wait = appender.write(chunk);
      return detector?.add(chunk)?.then(() => wait) ?? wait;
    },
    keep: () => appender.end(),
    async finish(signal) {
      const size = await appender.end();
      const sink = await files.openSink(
        slot,
        { ...plan, fileId, size },
        // a request that slept until another one made more of the file must not replace that
        { signal, beforeCommit: ensureOurs },
      );
      try {
        for (const key of [...parts, ...appender.keys]) await copyPart(storage, key, sink, signal);
        return { fileId, ...(await sink.finish()) };
      } catch (error) {
        await sink.abort();
        throw error;
      }
    },
    keys: () => [...parts, ...appender.keys],
    async discard() {},
    leave: () => appender.abort(),
  };
}

async function copyPart(
  storage: UploadStorage,
  key: string,
  sink: FileSink,
  signal: AbortSignal,
): Promise<void> {
  const { body } = await storage.open(key, { signal });
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      await sink.write(value);
    }
  } catch (error) {
    await reader.cancel(error).catch(() => {});
    throw error;
  }
}
