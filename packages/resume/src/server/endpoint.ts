import { isLegacyRequest, type McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  cancelledBy,
  isRequest,
  type LooseResponse,
  STREAM_METHOD,
  TREE_METHOD,
} from "@sluice/core/internal";
import { problem, problemOf, tagOf } from "@sluice/server/internal";
import type { StreamPage } from "@sluice/state";
import { toResponse } from "@sluice/transport-http/internal";
import { isStateless, statelessAdvice, takesPriming } from "../protocol/revision.ts";
import { parseEventId } from "../stream/event-id.ts";
import { answerText, isAnswer, questionName, streamOfQuestion } from "../stream/question.ts";
import { answerWithEvents } from "./event-answer.ts";
import type { LinkedPosition } from "./links.ts";
import type { ResumeParts } from "./parts.ts";
import { findMember, ownerOf, type SessionRequest } from "./session-request.ts";
import { startStream } from "./start-stream.ts";
import { readRecord } from "./stream-record.ts";
import { takeOver } from "./take-over.ts";

/** Answers a POST at the endpoint: calls of a session become streams, answers to our questions are taken. */
export async function answerPost(parts: ResumeParts, asked: SessionRequest): Promise<Response> {
  const { handler, sluice, calls, reruns } = parts;
  const { request, sessionId, mcpOptions } = asked;
  const body = mcpOptions?.parsedBody;
  if (body === undefined || !(await isLegacyRequest(request, body)))
    return handler.fetch(request, mcpOptions);
  const withBody: McpHandlerRequestOptions = { ...mcpOptions, parsedBody: body };

  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  const others = await takeAnswers(parts, asked, messages);
  if ("status" in others) return others;
  if (others.length === 0) return new Response(null, { status: 202 });
  if (others.length < messages.length) withBody.parsedBody = others;

  if (!isRequest(body)) {
    const response = await handler.fetch(request, withBody);
    for (const message of others) {
      const cancelled = cancelledBy(message);
      if (response.ok && cancelled !== undefined) await calls.end(sessionId, cancelled);
    }
    return response;
  }
  if (body.method === "initialize") {
    const response = await handler.fetch(request, withBody);
    const opened = response.headers.get("mcp-session-id");
    if (!reruns || opened === null || !body.params) return response;
    // an opening takes room, and the calls of a caller without a principal are not kept
    const member = await findMember(sluice, { ...asked, sessionId: opened });
    if (member) await reruns.remember(opened, body.params, member.owner);
    return response;
  }
  // its response may be bytes: the layer of Sluice, on either side, must see the request itself
  const mayBeBytes = body.method === STREAM_METHOD || body.method === TREE_METHOD;
  if (sessionId === "" || mayBeBytes) return handler.fetch(request, withBody);
  return startStream(parts, asked, body);
}

/** Answers a GET at the endpoint that names an event of ours, as clients without links send it; the handler has the others. */
export async function answerGet(parts: ResumeParts, asked: SessionRequest): Promise<Response> {
  const { handler, sluice, onError } = parts;
  const { request, mcpOptions } = asked;
  const eventId = request.headers.get("last-event-id");
  if (eventId !== null && isStateless(request.headers.get("mcp-protocol-version")))
    return toResponse(
      problem(405, { reason: "revision", detail: statelessAdvice, headers: ["Allow", "POST"] }),
    );
  const position = parseEventId(eventId);
  if (!position) return handler.fetch(request, mcpOptions);
  try {
    const member = await findMember(sluice, asked);
    const answer = member && (await goOn(parts, asked, { position, member }));
    // 404 would tell the client that its session has ended
    return answer ?? toResponse(problem(400));
  } catch (error) {
    onError(error);
    return toResponse(problemOf(error));
  }
}

/** `undefined` for a position that the member has no stream for. */
async function goOn(
  parts: ResumeParts,
  asked: SessionRequest,
  { position, member }: LinkedPosition,
): Promise<Response | undefined> {
  const { sluice, store, links } = parts;
  const { request, sessionId } = asked;
  const { streamId, seq } = position;
  await sluice.host.usage.admit(tagOf(member.principal), "request");
  const page = await store.read(streamId, { after: seq, now: Date.now(), maxEvents: 1 });
  if (!page || readRecord(page).owner !== ownerOf(member) || seq > page.lastSeq) return undefined;
  if (await sluice.host.isSessionOver(sessionId)) return undefined;
  await sluice.host.bindSession(member);
  await takeOver(parts, { streamId, page, asked });
  const link = links.linkTo(member, position);
  // SDKs forget the id that they came with: they come back only with one that they got here
  const primed = takesPriming(request.headers.get("mcp-protocol-version"));
  // a reader that stays does not come back to have its stream taken over
  const adopt = (now: StreamPage) => takeOver(parts, { streamId, page: now, asked });
  // no 204: this client answers with its own POST, and would take it for the end
  const sendAway = primed ? "idle" : "never";
  return answerWithEvents(parts, { position, sessionId, link, primed, sendAway, adopt });
}

/**
 * Takes the answers to questions of our streams that come to the endpoint, as clients without links send them, and
 * whichever process asked. Gives the other messages, or a refusal.
 */
async function takeAnswers(
  parts: ResumeParts,
  asked: SessionRequest,
  messages: readonly unknown[],
): Promise<readonly unknown[] | Response> {
  const others: unknown[] = [];
  try {
    for (const message of messages)
      if (!isAnswer(message) || !(await take(parts, asked, message))) others.push(message);
  } catch (error) {
    if (!SluiceError.is(error) || error.code === "unavailable") parts.onError(error);
    return toResponse(
      SluiceError.is(error) && error.code === "too_large"
        ? problem(413, { reason: "too_large" })
        : problemOf(error),
    );
  }
  return others;
}

/** False when this session has no such stream. Throws `not_found` for a caller that is not its owner. */
async function take(
  { store, calls, sluice }: ResumeParts,
  asked: SessionRequest,
  response: LooseResponse,
): Promise<boolean> {
  const streamId = streamOfQuestion(response.id);
  if (streamId === undefined) return false;
  const { sessionId } = asked;
  const member = await findMember(sluice, asked);
  const call = calls.of(streamId);
  let stream: { readonly sessionId: string; readonly owner: string } | undefined = call;
  if (!call) {
    if (!member) return false;
    // each response is one look into the store, and a body has room for many
    await sluice.host.usage.admit(tagOf(member.principal), "request");
    const page = await store.read(streamId, { after: 0, now: Date.now(), maxEvents: 1 });
    stream = page && readRecord(page);
  }
  if (stream?.sessionId !== sessionId) return false;
  if (!member || ownerOf(member) !== stream.owner)
    throw new SluiceError("not_found", "resume: the question went to another principal");
  if (!call && (await sluice.host.isSessionOver(sessionId)))
    throw new SluiceError("not_found", "resume: the session has ended");
  const ask = questionName(response.id);
  const answer = answerText(response);
  const outcome = await store.answer(streamId, [{ ask, answer }], Date.now());
  // the process that asked finds it at its next look
  if (outcome === "accepted") await call?.deliver(ask, answer);
  return true;
}
