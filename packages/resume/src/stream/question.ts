import { resourceTag } from "@sluice/core";
import { isResponse, type RpcId, type LooseResponse } from "@sluice/core/internal";
import { isStreamId, streamIdLength } from "./event-id.ts";

/**
 * Id of a question for the client. It names the stream: servers of one session in several processes count alike, and
 * a response finds its stream by it.
 */
export function formatQuestionId(streamId: string, id: RpcId): string {
  return `${streamId}?${JSON.stringify(id)}`;
}

/** The id that the server gave a question. Only for ids of {@link formatQuestionId}. */
export function ownIdOf(questionId: RpcId): RpcId {
  return JSON.parse(String(questionId).slice(streamIdLength + 1)) as RpcId;
}

/** The stream that a question id of ours names; `undefined` for others. */
export function streamOfQuestion(id: RpcId): string | undefined {
  if (typeof id !== "string" || id[streamIdLength] !== "?") return undefined;
  const streamId = id.slice(0, streamIdLength);
  return isStreamId(streamId) ? streamId : undefined;
}

/** Name of a question in an event store; 5 and "5" are two. */
export function questionName(id: RpcId): string {
  const text = JSON.stringify(id);
  return /^[\x21-\x7e]{1,100}$/.test(text) ? text : `#${resourceTag(text)}`;
}

/** True for a valid answer of a client: a response with exactly one of a result and an error. */
export function isAnswer(message: unknown): message is LooseResponse {
  return isResponse(message) && "result" in message !== "error" in message;
}

/** A response as it is kept, the same for the same content. */
export function answerText({ result, error }: LooseResponse): string {
  return JSON.stringify(error === undefined ? { result } : { error });
}

/** Kept as the answer to a question that the server withdrew. */
export const noAnswer = "";
