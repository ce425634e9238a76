import { readRequestBody } from "@modelcontextprotocol/server";
import { definedMembers, readJson, SluiceError } from "@sluice/core";
import type { StreamPage } from "@sluice/state";
import { problem, problemOf, tagOf } from "@sluice/server/transport";
import { toResponse } from "@sluice/transport-http/handlers";
import { isStateless, statelessAdvice } from "../protocol/revision.ts";
import { parseEventId, type StreamPosition } from "../stream/event-id.ts";
import { answerText, isAnswer, noAnswer, questionName } from "../stream/question.ts";
import type { AnswerWithEvents } from "./event-answer.ts";
import type { LinkedPosition } from "./links.ts";
import type { ResumeParts } from "./parts.ts";
import { isRead } from "./read-note.ts";
import { callerOf, type SessionRequest } from "./session-request.ts";
import type { TakeOver } from "./take-over.ts";

/** Answers GET and POST to the link of a token. Never rejects. */
export type LinkRoute = (asked: SessionRequest, token: string) => Promise<Response>;

/** Makes the route of the links. */
export function createLinkRoute(
  parts: Pick<ResumeParts, "sluice" | "store" | "calls" | "links" | "maxBodyBytes" | "onError">,
  takeOver: TakeOver,
  answerWithEvents: AnswerWithEvents,
): LinkRoute {
  const { sluice, store, calls, links, maxBodyBytes, onError } = parts;
  const { state, usage } = sluice.host;

  async function answer(asked: SessionRequest, token: string): Promise<Response> {
    const { request } = asked;
    const { method } = request;
    if (method !== "GET" && method !== "POST")
      return toResponse(problem(405, { headers: ["Allow", allowed] }));
    if (isStateless(request.headers.get("mcp-protocol-version")))
      return toResponse(problem(400, { reason: "era", detail: statelessAdvice }));
    const { position: linked, member } = await links.open(token, callerOf(asked));
    await usage.admit(tagOf(member.principal), "request");
    const { streamId } = linked;
    let page = await look(linked);
    const position = startOf(request, linked, page);
    if (!position) return toResponse(problem(400));
    // a stream that is taken over may have ended by that
    if (await takeOver({ streamId, page, asked })) page = await look(linked);
    const from = { position, member };
    return method === "POST" ? post(asked, from) : get(asked, from, page);
  }

  async function get(
    asked: SessionRequest,
    from: LinkedPosition,
    page: StreamPage,
  ): Promise<Response> {
    const { position, member } = from;
    // 204 tells the client that it is its turn (SEP-1335)
    if (isAsking(page) && (await hasRead(asked.request, position, page))) {
      const link = links.linkTo(member, position);
      const headers = definedMembers({ link, "cache-control": "no-store" });
      return new Response(null, { status: 204, headers });
    }
    return goOn(asked, from);
  }

  /** A client that names no event is believed to have had what it was given to the end. */
  async function hasRead(
    request: Request,
    { streamId, seq }: StreamPosition,
    { lastSeq }: StreamPage,
  ): Promise<boolean> {
    if (seq === lastSeq) return true;
    return !request.headers.has("last-event-id") && isRead({ streamId, seq: lastSeq }, state);
  }

  /** Takes the answers of the client: all of them, or none. */
  async function post(asked: SessionRequest, from: LinkedPosition): Promise<Response> {
    const { request, mcpOptions } = asked;
    const { position, member } = from;
    const { streamId } = position;
    const body = await readBody(request, mcpOptions?.parsedBody, maxBodyBytes);
    if (body === "too large") return toResponse(problem(413, { reason: "too_large" }));
    if (!Array.isArray(body) || !body.every(isAnswer)) return refuse();
    const page = await look(position);
    const isWithdrawn = (ask: string): boolean =>
      page.asks.some((each) => each.ask === ask && each.answer === noAnswer);
    const given = body.map((response) => ({
      ask: questionName(response.id),
      answer: answerText(response),
    }));
    const answers = given.filter(({ ask }) => !isWithdrawn(ask));
    const isVain = answers.length === 0 && given.length > 0;
    const kept = isVain
      ? "repeated"
      : await store.answer(streamId, answers, Date.now()).catch(tooLarge);
    if (kept === "too large") return toResponse(problem(413, { reason: "too_large" }));
    // of a stream that ended meanwhile, the rest is all that is of use
    if (kept === "refused" && !(await look(position)).isOver) return refuse();
    if (kept === undefined) throw new SluiceError("not_found", "resume: the stream is gone");
    const call = calls.of(streamId);
    for (const { ask, answer: text } of answers)
      if (kept !== "refused") await call?.deliver(ask, text);
    // a client that names no event has read up to the question that it answers
    const answered = page.asks.filter(({ ask }) => answers.some((each) => each.ask === ask));
    const seq = request.headers.has("last-event-id")
      ? position.seq
      : Math.max(position.seq, ...answered.map((ask) => ask.seq));
    return goOn(asked, { position: { streamId, seq }, member });
  }

  function goOn({ sessionId }: SessionRequest, { position, member }: LinkedPosition): Response {
    const link = links.linkTo(member, position);
    const { owner } = member;
    return answerWithEvents({
      position,
      sessionId,
      link,
      primed: false,
      sendAway: "asking",
      owner,
    });
  }

  /** The state of a stream. */
  async function look({ streamId, seq: after }: StreamPosition): Promise<StreamPage> {
    const page = await store.read(streamId, { after, now: Date.now(), maxEvents: 1 });
    if (!page) throw new SluiceError("not_found", "resume: the stream is gone");
    return page;
  }

  return (asked, token) =>
    answer(asked, token).catch((error: unknown) => {
      if (!SluiceError.is(error) || isFault(error)) onError(error);
      return toResponse(problemOf(error));
    });
}

/** Where the answer begins: behind the last event that the client had, or else where the link says. */
function startOf(
  request: Request,
  linked: StreamPosition,
  page: StreamPage,
): StreamPosition | undefined {
  const header = request.headers.get("last-event-id");
  if (header === null) return linked;
  const position = parseEventId(header);
  return position?.streamId === linked.streamId && position.seq <= page.lastSeq
    ? position
    : undefined;
}

/** True while the server waits for the client. */
function isAsking({ asks, isOver }: StreamPage): boolean {
  return !isOver && asks.some(({ answer }) => answer === undefined);
}

async function readBody(request: Request, parsedBody: unknown, maxBytes: number): Promise<unknown> {
  if (parsedBody !== undefined) return parsedBody;
  const read = await readRequestBody(request, maxBytes);
  return read.tooLarge ? "too large" : readJson(read.text).value;
}

function tooLarge(error: unknown): "too large" {
  if (SluiceError.is(error) && error.code === "too_large") return "too large";
  throw error;
}

function refuse(): Response {
  return toResponse(problem(400, { reason: "answers" }));
}

function isFault({ code }: SluiceError): boolean {
  return code === "internal" || code === "unavailable";
}

const allowed = "GET, POST, OPTIONS";
