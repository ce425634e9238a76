import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import { createTarPacker, type TarPackController } from "modern-tar";
import type { ArchiveEntry } from "../entries/read-entries.ts";

/** Maximum of the time field, in seconds: 11 octal digits. */
const maxSeconds = 8 ** 11 - 1;

/**
 * Writes entries as a tar archive (POSIX.1-2001, "pax"). A header tells the size before the bytes: an entry whose
 * size is not known is `unsupported`.
 */
export async function* writeTar(
  entries: AsyncIterable<ArchiveEntry>,
): AsyncGenerator<Uint8Array, undefined> {
  const { readable, controller } = createTarPacker();
  const reader = readable.getReader();
  const steps = packEntries(entries, controller);
  try {
    for (;;) {
      const pulled: { chunk?: Awaited<ReturnType<typeof reader.read>> } = {};
      // the step that broke the packer throws its error
      const reading = reader.read().then(
        (chunk) => void (pulled.chunk = chunk),
        () => {},
      );
      // a chunk that the packer holds is here after this; it would buffer 8 MiB, so no step is taken ahead
      await Promise.race([reading, Promise.resolve()]);
      while (pulled.chunk === undefined) await steps.next();
      if (pulled.chunk.done) return;
      yield pulled.chunk.value;
    }
  } finally {
    void reader.cancel();
    await steps.return(undefined);
  }
}

/** Stops after each step, which gives the packer one chunk or one header. */
async function* packEntries(
  entries: AsyncIterable<ArchiveEntry>,
  controller: TarPackController,
): AsyncGenerator<undefined, undefined> {
  for await (const { path, size, modified, chunks } of entries) {
    if (size === undefined)
      throw new SluiceError(
        "unsupported",
        `archive: the storage does not tell the size of ${JSON.stringify(path)}, which tar needs; ask for a ZIP archive`,
      );
    const body = controller
      .add({
        name: path,
        size,
        mtime: tarTime(modified),
        mode: 0o644,
        // readers take the name of a plain header for one in the code page of their system
        ...definedMembers({ pax: isAscii.test(path) ? undefined : { path } }),
      })
      .getWriter();
    yield;
    for await (const chunk of chunks) {
      await body.write(chunk);
      yield;
    }
    await body.close();
    yield;
  }
  controller.finalize();
}

const isAscii = /^[\u0020-\u007e]*$/;

/** 1980 where the time is not known, as in a ZIP archive. */
function tarTime(modified: Date | undefined): Date {
  const seconds = (modified?.getTime() ?? Date.UTC(1980, 0)) / 1000;
  return new Date(Math.min(Math.max(0, seconds), maxSeconds) * 1000);
}
