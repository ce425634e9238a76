import { resourceTag, SluiceError } from "@sluice/core";
import type { ResumeParts } from "./resume-options.ts";
import type { Place } from "./resume-link.ts";

type Parts = Pick<ResumeParts, "sluice" | "maxAgeMs" | "onError">;

/**
 * Notes that a client was given everything up to a question of its stream, in an answer that ended there: it need not name
 * the event when it comes back. False where that cannot be kept.
 */
export async function noteRead(
  { sluice, maxAgeMs, onError }: Parts,
  place: Place,
  owner: string,
): Promise<boolean> {
  const { state } = sluice.host;
  const now = Date.now();
  try {
    const terms = { now, expiresAt: now + maxAgeMs, owner };
    await state.put(nameOf(place), new Uint8Array(), terms);
    return true;
  } catch (error) {
    if (SluiceError.is(error) && error.code === "already_exists") return true;
    onError(error);
    return false;
  }
}

/** Whether that was noted of a place, by whichever process that shares the state store. */
export async function isRead({ sluice }: Parts, place: Place): Promise<boolean> {
  return (await sluice.host.state.get(nameOf(place), Date.now())) !== undefined;
}

/** Ids of streams are half of what their links say: the store has their tags. */
function nameOf({ streamId, seq }: Place): string {
  return `read ${resourceTag(streamId)} ${seq}`;
}
