import { principalTag, type StreamPage } from "@sluice/core";
import type { Caller } from "@sluice/server";
import { noteRequest, notesOf } from "@sluice/server/transport";
import { markPaced } from "../events/bound-events.ts";
import { createFeed } from "./resume-feed.ts";
import { Journal } from "./resume-journal.ts";
import { newStreamId, type Member, type Place } from "./resume-link.ts";
import type { RpcId, RpcRequest } from "./resume-message.ts";
import type { Asked, ResumeParts, StreamRecord } from "./resume-options.ts";
import { noteRead } from "./resume-read.ts";
import { startRelay } from "./resume-run.ts";

/** Who asks; `undefined` when nobody vouches for them, or the handler itself has to refuse them. */
export async function memberOf(parts: ResumeParts, asked: Asked): Promise<Member | undefined> {
  try {
    const member = await parts.sluice.host.identify(callerOf(asked));
    return member.principal?.sessionId ? member : undefined;
  } catch {
    return undefined;
  }
}

/** The caller of a request, for `identify`. */
export function callerOf({ request, sessionId, mcpOptions }: Asked): Caller {
  return {
    address: notesOf(request).address,
    authInfo: mcpOptions?.authInfo,
    sessionId,
    header: (name: string) => request.headers.get(name) ?? undefined,
  };
}

/** Tag of a member in its session: who may have what it asked for. */
export function ownerOf({ principal }: Member): string {
  return principalTag(principal!);
}

/**
 * Has a request answered by the handler, and its answer kept while it comes about. What is not a stream of
 * events goes on as it is, and so does all of it where there is no room to keep it.
 */
export async function startStream(
  parts: ResumeParts,
  asked: Asked,
  call: RpcRequest,
): Promise<Response> {
  const { handler, store, runs, links, onError } = parts;
  const { request, sessionId, mcpOptions } = asked;
  const member = await memberOf(parts, asked);
  const place = { streamId: newStreamId(), seq: 0 };
  const link = member && links.linkTo(member, place);
  const told = { ...mcpOptions, parsedBody: call };
  if (!member || link === undefined || !(await binds(parts, member)))
    return handler.fetch(request, told);

  // a copy without the signal: who goes away has not cancelled the request
  const copy = new Request(request.url, { method: "POST", headers: request.headers });
  noteRequest(copy, notesOf(request));
  const { url, headers } = copy;
  const answer = await handler.fetch(copy, told);
  const type = answer.headers.get("content-type") ?? "";
  if (!answer.ok || !answer.body || !type.startsWith("text/event-stream")) return answer;

  const owner = ownerOf(member);
  const { streamId } = place;
  try {
    const now = Date.now();
    await store.open(streamId, {
      record: JSON.stringify(await recordOf(parts, { sessionId, owner, call })),
      now,
      expiresAt: now + parts.maxAgeMs,
      heldUntil: now + parts.leaseMs,
    });
  } catch (error) {
    onError(error);
    // a store that did not answer in time may have opened it
    store.drop(streamId).catch(onError);
    return answer;
  }
  const { id: requestId } = call;
  const journal = journalFor(parts, { streamId, epoch: 1, requestId, lastSeq: 0 });
  const { body } = answer;
  const ids = { sessionId, owner, requestId };
  runs.add(startRelay({ handler, url, headers, mcpOptions, body, journal, onError, ...ids }));
  const primed = knowsPriming(headers.get("mcp-protocol-version"));
  return eventAnswer(parts, {
    place,
    sessionId,
    link,
    primed,
    leaves: primed ? "asking" : "never",
    share: member.owner,
  });
}

/** Has the end of the session remembered; where that cannot be, no link is given that would outlive it. */
async function binds({ sluice, onError }: ResumeParts, member: Member): Promise<boolean> {
  try {
    await sluice.host.bindSession(member);
    return true;
  } catch (error) {
    onError(error);
    return false;
  }
}

/** The journal of a stream that this process holds. */
export function journalFor(
  { store, keepMs, leaseMs, onError }: ResumeParts,
  stream: { streamId: string; epoch: number; requestId: RpcId; lastSeq: number },
): Journal {
  return new Journal({ store, keepMs, patienceMs: leaseMs, onError, ...stream });
}

/** What an answer with events needs to know. */
interface EventAnswer {
  readonly place: Place;
  readonly sessionId: string;
  readonly link: string | undefined;
  readonly primed: boolean;
  readonly leaves: "asking" | "idle" | "never";
  readonly adopt?: (page: StreamPage) => Promise<unknown>;
  /** In whose share of the state store it counts what is noted of the reader. */
  readonly share?: string | undefined;
}

/** The events after a place, as an answer. */
export function eventAnswer(
  parts: ResumeParts,
  { place, sessionId, link, primed, leaves, adopt, share }: EventAnswer,
): Response {
  const { store, runs, holdMs, retryMs, onError } = parts;
  const { journalOf } = runs;
  const isClosing = (): boolean => runs.isClosing;
  const response = new Response(
    createFeed({
      store,
      place,
      journalOf,
      isClosing,
      primed,
      leaves,
      onAsked: (read) => noteRead(parts, read, share ?? ""),
      adopt,
      holdMs,
      retryMs,
      onError,
    }),
    {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
        "mcp-session-id": sessionId,
        ...(link !== undefined && { link }),
      },
    },
  );
  return markPaced(response);
}

async function recordOf(
  { rerun, openings }: ResumeParts,
  { sessionId, owner, call }: { sessionId: string; owner: string; call: RpcRequest },
): Promise<StreamRecord> {
  const initialize = rerun?.allows(call) ? await openings.of(sessionId) : undefined;
  const record = { requestId: call.id, sessionId, owner };
  return initialize ? { ...record, rerun: { call, initialize } } : record;
}

/**
 * Whether a client of this version takes an event without data for what it is, and comes back after an answer
 * that ended without one (SEP-1699, revision 2025-11-25).
 */
export function knowsPriming(version: string | null): boolean {
  return version !== null && version >= "2025-11-25";
}
