import { SluiceError } from "@sluice/core";
import type { LooseResponse } from "@sluice/core/internal";
import { problem, problemOf, tagOf } from "@sluice/server/internal";
import { toResponse } from "@sluice/transport-http/internal";
import { answerText, isAnswer, questionName, streamOfQuestion } from "../stream/question.ts";
import type { ResumeParts } from "./parts.ts";
import { findMember, ownerOf, type SessionRequest } from "./session-request.ts";
import { readRecord } from "./stream-record.ts";

/**
 * Takes the answers to questions of our streams that come to the endpoint, as clients without links send them, and
 * whichever process asked. Gives the other messages, or a refusal.
 */
export async function takeAnswers(
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
