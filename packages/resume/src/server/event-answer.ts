import { definedMembers, type EventStore, type StateStore, type StreamPage } from "@sluice/core";
import { markPaced } from "@sluice/transport-http/handlers";
import type { StreamPosition } from "../stream/event-id.ts";
import { createEventFeed, type SendAway } from "../stream/event-feed.ts";
import { noteRead } from "./read-note.ts";
import type { RunningCalls } from "./running-calls.ts";

/** What {@link createEventAnswers} needs. */
export interface EventAnswersOptions {
  readonly store: EventStore;
  readonly calls: RunningCalls;
  readonly state: StateStore;
  /** Milliseconds for which a reader is kept while there is nothing to read. */
  readonly holdMs: number;
  /** Milliseconds that a reader which is sent away is told to wait. */
  readonly retryMs: number;
  readonly onError: (error: unknown) => void;
}

/** One answer with events. */
export interface EventAnswer {
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
export type AnswerWithEvents = (answer: EventAnswer) => Response;

/** Makes the answers of one endpoint. */
export function createEventAnswers(options: EventAnswersOptions): AnswerWithEvents {
  const { store, calls, state, holdMs, retryMs, onError } = options;
  return ({ position, sessionId, link, primed, sendAway, adopt, owner = "" }) => {
    const feed = createEventFeed({
      store,
      position,
      writerOf: calls.writerOf,
      isClosing: () => calls.isClosing,
      primed,
      sendAway,
      onAsked: (read) => noteRead(read, { state, owner, onError }),
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
  };
}
