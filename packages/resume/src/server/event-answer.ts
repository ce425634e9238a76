import { definedMembers } from "@sluice/core/internal";
import type { StreamPage } from "@sluice/state";
import { markPaced } from "@sluice/transport-http/internal";
import { eventFeed, type SendAway } from "../stream/event-feed.ts";
import type { StreamPosition } from "../stream/event-id.ts";
import type { ResumeParts } from "./parts.ts";
import { noteRead } from "./read-note.ts";

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
