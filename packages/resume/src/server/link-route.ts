import { readRequestBody } from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { definedMembers, readJson } from "@sluice/core/internal";
import type { StreamPage } from "@sluice/state";
import { problem, problemOf, tagOf } from "@sluice/server/internal";
import type { CorsTerms, Routes } from "@sluice/transport-http";
import { allowOf, routesBelow, toResponse } from "@sluice/transport-http/internal";
import { isStateless, statelessAdvice } from "../protocol/revision.ts";
import { parseEventId, type StreamPosition } from "../stream/event-id.ts";
import { answerText, isAnswer, noAnswer, questionName } from "../stream/question.ts";
import { answerWithEvents, isRead } from "./event-answer.ts";
import type { LinkedPosition } from "./links.ts";
import type { ResumeParts } from "./parts.ts";
import { callerOf, type SessionRequest } from "./session-request.ts";
import { takeOver } from "./take-over.ts";

/** The route of the links, for an endpoint that this process sees at `base`. */
export function linkRoutes(base: string, parts: ResumeParts): Routes {
  return routesBelow(`${base}/resume/`, (token) => ({
    kind: "resume",
    credential: "bearer",
    cors: linkCors,
    fetch(request, mcpOptions) {
      const sessionId = request.headers.get("mcp-session-id") ?? "";
      return answerLink(parts, { request, mcpOptions, sessionId }, token);
    },
  }));
}

const linkCors: CorsTerms = {
  methods: ["GET", "POST"],
  headers: "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Session-Id",
};

/** Answers GET and POST to the link of a token. Never rejects. */
async function answerLink(
  parts: ResumeParts,
  asked: SessionRequest,
  token: string,
): Promise<Response> {
  try {
    return await serve(parts, asked, token);
  } catch (error) {
    if (!SluiceError.is(error) || isFault(error)) parts.onError(error);
    return toResponse(problemOf(error));
  }
}

async function serve(parts: ResumeParts, asked: SessionRequest, token: string): Promise<Response> {
  const { sluice, links } = parts;
  const { request } = asked;
  const { method } = request;
  if (method !== "GET" && method !== "POST")
    return toResponse(problem(405, { headers: ["Allow", allowed] }));
  if (isStateless(request.headers.get("mcp-protocol-version")))
    return toResponse(problem(400, { reason: "revision", detail: statelessAdvice }));
  const { position: linked, member } = await links.open(token, callerOf(asked));
  await sluice.host.usage.admit(tagOf(member.principal), "request");
  const { streamId } = linked;
  let page = await look(parts, linked);
  const position = startOf(request, linked, page);
  if (!position) return toResponse(problem(400));
  // a stream that is taken over may have ended by that
  if (await takeOver(parts, { streamId, page, asked })) page = await look(parts, linked);
  const from = { position, member };
  if (method === "POST") return post(parts, asked, from);
  const last = { streamId, seq: page.lastSeq };
  const isAtEnd = position.seq === last.seq;
  if (!isAsking(page) || !(isAtEnd || (await hasRead(parts, asked, last))))
    return goOn(parts, asked, from);
  // 204 tells the client that it is its turn (SEP-1335)
  const headers = definedMembers({
    link: links.linkTo(member, position),
    "cache-control": "no-store",
  });
  return new Response(null, { status: 204, headers });
}

/** A client that names no event is believed to have had what it was given to the end. */
async function hasRead(
  parts: ResumeParts,
  { request }: SessionRequest,
  last: StreamPosition,
): Promise<boolean> {
  return !request.headers.has("last-event-id") && isRead(parts, last);
}

/** Takes the responses of the client: all of them, or none. */
async function post(
  parts: ResumeParts,
  asked: SessionRequest,
  { position, member }: LinkedPosition,
): Promise<Response> {
  const { store, calls, maxBodyBytes } = parts;
  const { request, mcpOptions } = asked;
  const { streamId } = position;
  const body = await readBody(request, mcpOptions?.parsedBody, maxBodyBytes);
  if (body === "too large") return toResponse(problem(413, { reason: "too_large" }));
  if (!Array.isArray(body) || !body.every(isAnswer)) return refuse();
  const page = await look(parts, position);
  const isWithdrawn = (ask: string): boolean =>
    page.asks.some((each) => each.ask === ask && each.answer === noAnswer);
  const sentAnswers = body.map((response) => ({
    ask: questionName(response.id),
    answer: answerText(response),
  }));
  const answers = sentAnswers.filter(({ ask }) => !isWithdrawn(ask));
  const isVain = answers.length === 0 && sentAnswers.length > 0;
  const outcome = isVain
    ? "repeated"
    : await store.answer(streamId, answers, Date.now()).catch(tooLarge);
  if (outcome === "too large") return toResponse(problem(413, { reason: "too_large" }));
  // of a stream that has ended by now, only the rest is of use
  if (outcome === "refused" && !(await look(parts, position)).isOver) return refuse();
  if (outcome === undefined) throw new SluiceError("not_found", "resume: the stream is gone");
  const call = calls.of(streamId);
  for (const { ask, answer: text } of answers)
    if (outcome !== "refused") await call?.deliver(ask, text);
  // a client that names no event has read up to the question that it answers
  const answered = page.asks.filter(({ ask }) => answers.some((each) => each.ask === ask));
  const seq = request.headers.has("last-event-id")
    ? position.seq
    : Math.max(position.seq, ...answered.map((ask) => ask.seq));
  return goOn(parts, asked, { position: { streamId, seq }, member });
}

function goOn(
  parts: ResumeParts,
  { sessionId }: SessionRequest,
  { position, member }: LinkedPosition,
): Response {
  const link = parts.links.linkTo(member, position);
  const { owner } = member;
  const answerTerms = { position, sessionId, link, owner };
  return answerWithEvents(parts, { ...answerTerms, primed: false, sendAway: "asking" });
}

async function look(
  { store }: ResumeParts,
  { streamId, seq: after }: StreamPosition,
): Promise<StreamPage> {
  const page = await store.read(streamId, { after, now: Date.now(), maxEvents: 1 });
  if (!page) throw new SluiceError("not_found", "resume: the stream is gone");
  return page;
}

/** Where the response begins: behind the last event that the client had, or else where the link says. */
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

const allowed = allowOf(linkCors);
