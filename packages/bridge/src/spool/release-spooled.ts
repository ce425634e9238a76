import { keyOf } from "@sluice/core";
import type { SpooledString, SpooledStrings } from "./spooled-string.ts";

/** Removes what a string went to. */
export type RemoveString = (string: SpooledString) => Promise<void>;

/** Takes strings out of `spooled` and has them removed: no message names them any more. Gives how many there were. */
export function releaseSpooled(
  spooled: SpooledStrings,
  remove: RemoveString,
  isReleased: (string: SpooledString) => boolean,
): number {
  const released = [...spooled.values()].filter(isReleased);
  for (const string of released) {
    spooled.delete(string.id);
    void remove(string).catch(() => {});
  }
  return released.length;
}

/** Releases the strings of the answer with this id; true where there were any. */
export function releaseAnswer(spooled: SpooledStrings, remove: RemoveString, id: unknown): boolean {
  const key = keyOf(id);
  return releaseSpooled(spooled, remove, ({ answerId }) => keyOf(answerId) === key) > 0;
}
