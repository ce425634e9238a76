import { resourceTag, SluiceError, tokenLifetimes } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import type { StreamPosition } from "../stream/event-id.ts";

/** What {@link noteRead} needs. */
export interface ReadNoteOptions {
  readonly state: StateStore;
  /** In whose share of the state store the note counts. */
  readonly owner: string;
  readonly onError: (error: unknown) => void;
}

/** No link of a stream is good for longer. */
const keptMs = tokenLifetimes.resume.bound.maxTtlMs;

/**
 * Notes that a client was given everything up to a question, in an answer that ended there: it need not name the event
 * when it comes back. False where the note cannot be kept.
 */
export async function noteRead(
  position: StreamPosition,
  { state, owner, onError }: ReadNoteOptions,
): Promise<boolean> {
  const now = Date.now();
  try {
    const terms = { now, expiresAt: now + keptMs, owner };
    await state.put(nameOf(position), new Uint8Array(), terms);
    return true;
  } catch (error) {
    const code = SluiceError.is(error) ? error.code : undefined;
    if (code !== "already_exists" && code !== "throttled") onError(error);
    return code === "already_exists";
  }
}

/** True where a process that shares the state store has noted the position. */
export async function isRead(position: StreamPosition, state: StateStore): Promise<boolean> {
  return (await state.get(nameOf(position), Date.now())) !== undefined;
}

/** The store has the tag of a stream only: its id is half of what its links say. */
function nameOf({ streamId, seq }: StreamPosition): string {
  return `read ${resourceTag(streamId)} ${seq}`;
}
