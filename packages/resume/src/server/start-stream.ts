import { isEventStream, type LooseRequest } from "@sluice/core/internal";
import { noteRequest, notesOf } from "@sluice/server/internal";
import { takesPriming } from "../protocol/revision.ts";
import { newStreamId } from "../stream/event-id.ts";
import { answerWithEvents } from "./event-answer.ts";
import type { ResumeParts } from "./parts.ts";
import { startRelay } from "./relay.ts";
import { findMember, ownerOf, type SessionMember, type SessionRequest } from "./session-request.ts";
import type { StreamRecord } from "./stream-record.ts";

/**
 * Runs a call through the handler and records the response as it arrives. A response that is not an
 * event stream, or for which there is no room, passes through unrecorded.
 */
export async function startStream(
  parts: ResumeParts,
  asked: SessionRequest,
  call: LooseRequest,
): Promise<Response> {
  const { handler, sluice, calls, links, openWriter, onError } = parts;
  const { request, sessionId, mcpOptions } = asked;
  const member = await findMember(sluice, asked);
  const position = { streamId: newStreamId(), seq: 0 };
  const link = member && links.linkTo(member, position);
  const withBody = { ...mcpOptions, parsedBody: call };
  if (!member || link === undefined || !(await isBound(parts, member)))
    return handler.fetch(request, withBody);

  // a copy without the signal: a client that goes away has not cancelled the call
  const copy = new Request(request.url, { method: "POST", headers: request.headers });
  noteRequest(copy, notesOf(request));
  const { url, headers } = copy;
  const answer = await handler.fetch(copy, withBody);
  const { body } = answer;
  if (!answer.ok || !body || !isEventStream(answer.headers)) return answer;

  const { streamId } = position;
  const ids = { sessionId, owner: ownerOf(member), requestId: call.id };
  if (!(await open(parts, streamId, { ...ids, call }))) return answer;
  const writer = openWriter({ streamId, epoch: 1, requestId: call.id, lastSeq: 0 });
  calls.add(
    startRelay({ handler, calls, url, headers, mcpOptions, body, writer, onError, ...ids }),
  );
  const primed = takesPriming(headers.get("mcp-protocol-version"));
  return answerWithEvents(parts, {
    position,
    sessionId,
    link,
    primed,
    sendAway: primed ? "asking" : "never",
    owner: member.owner,
  });
}

/** Has the end of the session remembered; without that, no link is given that would outlast it. */
async function isBound({ sluice, onError }: ResumeParts, member: SessionMember): Promise<boolean> {
  try {
    await sluice.host.bindSession(member);
    return true;
  } catch (error) {
    onError(error);
    return false;
  }
}

/** Makes room for a stream; false where there is none. */
async function open(
  { store, reruns, maxAgeMs, leaseMs, onError }: ResumeParts,
  streamId: string,
  { call, ...ids }: Omit<StreamRecord, "rerun"> & { readonly call: LooseRequest },
): Promise<boolean> {
  try {
    const now = Date.now();
    const rerun = await reruns?.recordOf(ids.sessionId, call);
    const record: StreamRecord = { ...ids, rerun };
    await store.open(streamId, {
      record: JSON.stringify(record),
      now,
      expiresAt: now + maxAgeMs,
      heldUntil: now + leaseMs,
    });
    return true;
  } catch (error) {
    onError(error);
    // a store that did not answer in time may have opened it
    store.drop(streamId).catch(onError);
    return false;
  }
}
