import { resourceTag, SluiceError, tokenLifetimes } from "@sluice/core";
import type { StreamPosition } from "../stream/event-id.ts";
import type { ResumeParts } from "./parts.ts";

/** No link of a stream is good for longer. */
const keptMs = tokenLifetimes.resume.bound.maxTtlMs;

/**
 * Notes that a client was given everything up to a question, in an answer that ended there: it need not name the
 * event when it comes back. The note counts in the share of `owner`. False if it cannot be kept.
 */
export async function noteRead(
  { sluice, onError }: ResumeParts,
  position: StreamPosition,
  owner: string,
): Promise<boolean> {
  const now = Date.now();
  try {
    const terms = { now, expiresAt: now + keptMs, owner };
    await sluice.host.stores.state.put(nameOf(position), new Uint8Array(), terms);
    return true;
  } catch (error) {
    const code = SluiceError.is(error) ? error.code : undefined;
    if (code !== "already_exists" && code !== "throttled") onError(error);
    return code === "already_exists";
  }
}

/** True where a process that shares the state store has noted the position. */
export async function isRead({ sluice }: ResumeParts, position: StreamPosition): Promise<boolean> {
  return (await sluice.host.stores.state.get(nameOf(position), Date.now())) !== undefined;
}

/** The store has only the tag of a stream: its id is half of the content of its links. */
function nameOf({ streamId, seq }: StreamPosition): string {
  return `read ${resourceTag(streamId)} ${seq}`;
}
