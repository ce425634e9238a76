import type { SpoolFolder } from "./files/spool-folder.ts";
import type { SpooledString, SpooledStrings } from "./spooled-string.ts";

/** Takes strings out of `spooled` and removes their files: no message names them any more. Gives how many there were. */
export function releaseSpooled(
  spooled: SpooledStrings,
  folder: SpoolFolder,
  isReleased: (string: SpooledString) => boolean,
): number {
  const released = [...spooled.values()].filter(isReleased);
  for (const { id, path, bytes } of released) {
    spooled.delete(id);
    void folder.remove({ path, bytes });
  }
  return released.length;
}
