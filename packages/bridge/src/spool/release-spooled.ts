import { keyOf } from "@sluice/core";
import type { SpooledString, SpooledStrings } from "./spooled-string.ts";

/** Removes what a string went to. */
export type RemoveString = (string: SpooledString) => Promise<void>;

/**
 * Takes the strings of the answer with this id out of `spooled` and has them removed: no message names them any more. True
 * where there were any.
 */
export function releaseAnswer(spooled: SpooledStrings, remove: RemoveString, id: unknown): boolean {
  const key = keyOf(id);
  const released = [...spooled.values()].filter(({ answerId }) => keyOf(answerId) === key);
  for (const string of released) {
    spooled.delete(string.id);
    void remove(string).catch(() => {});
  }
  return released.length > 0;
}
