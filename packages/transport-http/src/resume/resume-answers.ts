import { SluiceError } from "@sluice/core";
import { problem, problemOf, tagOf } from "@sluice/server/transport";
import { streamOfQuestion } from "./resume-link.ts";
import { answerText, askName, isResponse, type RpcResponse } from "./resume-message.ts";
import type { Asked, ResumeParts } from "./resume-options.ts";
import { memberOf, ownerOf } from "./resume-start.ts";
import { readRecord } from "./resume-takeover.ts";
import { toResponse } from "../endpoint/web-response.ts";

/**
 * Takes the answers to questions of our streams that come to the endpoint itself, as clients without
 * links send them, whichever process asked. Gives the other messages, or a refusal.
 */
export async function takeAnswers(
  parts: ResumeParts,
  asked: Asked,
  messages: readonly unknown[],
): Promise<readonly unknown[] | Response> {
  const others: unknown[] = [];
  try {
    for (const message of messages) {
      const streamId = isResponse(message) ? streamOfQuestion(message.id) : undefined;
      const isTaken =
        streamId !== undefined &&
        (await takeAnswer(parts, asked, { streamId, response: message as RpcResponse }));
      if (!isTaken) others.push(message);
    }
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

/** False when there is no such stream in this session. Throws `not_found` to who is not its owner. */
async function takeAnswer(
  parts: ResumeParts,
  asked: Asked,
  { streamId, response }: { readonly streamId: string; readonly response: RpcResponse },
): Promise<boolean> {
  const { store, runs, sluice } = parts;
  const { sessionId } = asked;
  const member = await memberOf(parts, asked);
  const run = runs.of(streamId);
  let stream: { readonly sessionId: string; readonly owner: string } | undefined = run;
  if (!run) {
    if (!member) return false;
    // one look into the store each, as many as a body has room for
    await sluice.host.usage.admit(tagOf(member.principal), "request");
    const page = await store.read(streamId, { after: 0, now: Date.now(), maxEvents: 1 });
    stream = page && readRecord(page);
  }
  if (stream?.sessionId !== sessionId) return false;
  if (!member || ownerOf(member) !== stream.owner)
    throw new SluiceError("not_found", "resume: the question is somebody else's");
  if (!run && (await sluice.isSessionOver(sessionId)))
    throw new SluiceError("not_found", "resume: the session is over");
  const ask = askName(response.id);
  const answer = answerText(response);
  const kept = await store.answer(streamId, [{ ask, answer }], Date.now());
  // another process finds it when it looks after what it asked
  if (kept === "accepted") await run?.deliver(ask, answer);
  return true;
}
