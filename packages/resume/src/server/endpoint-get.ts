import type { StreamPage } from "@sluice/state";
import { problem, problemOf, tagOf } from "@sluice/server";
import { toResponse } from "@sluice/transport-http/handlers";
import { isStateless, statelessAdvice, takesPriming } from "../protocol/revision.ts";
import { parseEventId } from "../stream/event-id.ts";
import type { AnswerWithEvents } from "./event-answer.ts";
import type { LinkedPosition } from "./links.ts";
import type { ResumeParts } from "./parts.ts";
import { findMember, ownerOf, type SessionRequest } from "./session-request.ts";
import { readRecord } from "./stream-record.ts";
import type { TakeOver } from "./take-over.ts";

/** Answers a GET at the endpoint that names an event of ours, as clients without links send it; the handler has the others. */
export function createEndpointGet(
  parts: Pick<ResumeParts, "handler" | "sluice" | "store" | "links" | "onError">,
  takeOver: TakeOver,
  answerWithEvents: AnswerWithEvents,
): (asked: SessionRequest) => Promise<Response> {
  const { handler, sluice, store, links, onError } = parts;

  /** `undefined` for a position that the member has no stream for. */
  async function goOn(
    asked: SessionRequest,
    { position, member }: LinkedPosition,
  ): Promise<Response | undefined> {
    const { request, sessionId } = asked;
    const { streamId, seq } = position;
    await sluice.host.usage.admit(tagOf(member.principal), "request");
    const page = await store.read(streamId, { after: seq, now: Date.now(), maxEvents: 1 });
    if (!page || readRecord(page).owner !== ownerOf(member) || seq > page.lastSeq) return undefined;
    if (await sluice.isSessionOver(sessionId)) return undefined;
    await sluice.host.bindSession(member);
    await takeOver({ streamId, page, asked });
    const link = links.linkTo(member, position);
    // SDKs forget the id that they came with: they come back only with one that they got here
    const primed = takesPriming(request.headers.get("mcp-protocol-version"));
    // a reader that stays does not come back to have its stream taken over
    const adopt = (now: StreamPage) => takeOver({ streamId, page: now, asked });
    // no 204: this client answers with a POST of its own, and would take it for the end
    const sendAway = primed ? "idle" : "never";
    return answerWithEvents({ position, sessionId, link, primed, sendAway, adopt });
  }

  return async (asked) => {
    const { request, mcpOptions } = asked;
    const eventId = request.headers.get("last-event-id");
    if (eventId !== null && isStateless(request.headers.get("mcp-protocol-version")))
      return toResponse(
        problem(405, { reason: "era", detail: statelessAdvice, headers: ["Allow", "POST"] }),
      );
    const position = parseEventId(eventId);
    if (!position) return handler.fetch(request, mcpOptions);
    try {
      const member = await findMember(sluice, asked);
      const answer = member && (await goOn(asked, { position, member }));
      // 404 would tell the client that its session is over
      return answer ?? toResponse(problem(400));
    } catch (error) {
      onError(error);
      return toResponse(problemOf(error));
    }
  };
}
