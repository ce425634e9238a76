import { resourceTag, SluiceError, tokenLifetimes } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";
import type { StreamPage } from "@sluice/state";
import { markPaced } from "@sluice/transport-http/internal";
import { eventFeed, type SendAway } from "../stream/event-feed.ts";
import type { StreamPosition } from "../stream/event-id.ts";
import type { ResumeParts } from "./parts.ts";

interface EventAnswer {
  readonly position: StreamPosition;
  readonly sessionId: string;
  /** `Link` header; absent for a caller that gets none. */
  readonly link: string | undefined;
  readonly primed: boolean;
  readonly sendAway: SendAway;
  readonly adopt?: (page: StreamPage) => Promise<unknown>;
  /** In whose share of the state store the notes about the reader count. */
  readonly owner?: string | undefined;
}

/** Answers with the events behind a position. */
export function answerWithEvents(
  parts: ResumeParts,
  { position, sessionId, link, primed, sendAway, adopt, owner = "" }: EventAnswer,
): Response {
  const { store, calls, holdMs, retryMs, onError } = parts;
  const feed = eventFeed({
    store,
    position,
    writerOf: (streamId) => calls.writerOf(streamId),
    isClosing: () => calls.isClosing,
    primed,
    sendAway,
    onAsked: (read) => noteRead(parts, read, owner),
    adopt,
    holdMs,
    retryMs,
    onError,
  });
  const headers = definedMembers({
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "mcp-session-id": sessionId,
    link,
  });
  return markPaced(new Response(feed, { headers }));
}

/** No link of a stream is good for longer. */
const keptMs = tokenLifetimes.resume.bound.maxTtlMs;

/**
 * Notes that a client was given everything up to a question, in an answer that ended there: it need not name the
 * event when it comes back. The note counts in the share of `owner`. False if it cannot be kept.
 */
async function noteRead(
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
