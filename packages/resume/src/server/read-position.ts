import { resourceTag, SluiceError, tokenLifetimes } from "@sluice/core";
import type { ResumeParts } from "./options.ts";
import type { Place } from "./link.ts";

type Parts = Pick<ResumeParts, "sluice" | "onError">;

/** No link of the stream is good for longer. */
const keptMs = tokenLifetimes.resume.bound.maxTtlMs;

/**
 * Notes that a client was given everything up to a question of its stream, in an answer that ended there: it need not name
 * the event when it comes back. False where that cannot be kept.
 */
export async function noteRead(
  { sluice, onError }: Parts,
  place: Place,
  owner: string,
): Promise<boolean> {
  const { state } = sluice.host;
  const now = Date.now();
  try {
    const terms = { now, expiresAt: now + keptMs, owner };
    await state.put(nameOf(place), new Uint8Array(), terms);
    return true;
  } catch (error) {
    const code = SluiceError.is(error) ? error.code : undefined;
    if (code !== "already_exists" && code !== "throttled") onError(error);
    return code === "already_exists";
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
