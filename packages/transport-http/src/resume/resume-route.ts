import { readRequestBody } from "@modelcontextprotocol/server";
import { SluiceError, type EventStore, type StreamPage, parseJson } from "@sluice/core";
import { FIRST_MODERN_VERSION } from "@sluice/core/wire";
import { problem, problemOf, tagOf } from "@sluice/server/transport";
import { parseEventId, type Member, type Place } from "./resume-link.ts";
import { answerText, askName, isResponse, noAnswer } from "./resume-message.ts";
import type { Asked, ResumeParts } from "./resume-options.ts";
import { isRead } from "./resume-read.ts";
import { callerOf, eventAnswer, knowsPriming, ownerOf } from "./resume-start.ts";
import { readRecord, takeOver } from "./resume-takeover.ts";
import { toResponse } from "../endpoint/web-response.ts";

/** Says in the era without streams to pick up what there is instead. */
export const inModernEra =
  "Streams of events are picked up in MCP 2025-11-25 and older. In 2026-07-28 send the request again, take input_required results for what the server asks, and subscriptions/listen for changes.";

/** Answers GET and POST to the link of a token. Never rejects. */
export async function answerLink(
  parts: ResumeParts,
  asked: Asked,
  token: string,
): Promise<Response> {
  return answer(parts, asked, token).catch((error: unknown) => {
    if (!SluiceError.is(error) || isFault(error)) parts.onError(error);
    return toResponse(problemOf(error));
  });
}

async function answer(parts: ResumeParts, asked: Asked, token: string): Promise<Response> {
  const { request, sessionId } = asked;
  const { method } = request;
  if (method !== "GET" && method !== "POST")
    return toResponse(problem(405, { headers: ["Allow", allowed] }));
  if (isModernVersion(request.headers.get("mcp-protocol-version")))
    return toResponse(problem(400, { reason: "era", detail: inModernEra }));
  const { store, links, sluice } = parts;
  const { place: linked, member } = await links.open(token, callerOf(asked));
  await sluice.host.usage.admit(tagOf(member.principal), "request");
  const { streamId } = linked;
  let page = await look(store, linked);
  const from = startOf(request, linked, page);
  if (!from) return toResponse(problem(400));
  // which may have ended it
  if (await takeOver(parts, { streamId, page, asked })) page = await look(store, linked);
  if (method === "POST") return take(parts, asked, { place: from, member });
  const link = links.linkTo(member, from);
  // an answer of 204 tells the client that it is its turn (SEP-1335)
  if (isAsking(page) && (from.seq === page.lastSeq || (await wasRead(parts, request, page, from))))
    return new Response(null, { status: 204, headers: { ...(link && { link }), ...noStore } });
  const share = member.owner;
  return eventAnswer(parts, {
    place: from,
    sessionId,
    link,
    primed: false,
    leaves: "asking",
    share,
  });
}

/** A client that names no event is believed to have had what it was given to the end. */
async function wasRead(
  parts: ResumeParts,
  request: Request,
  { lastSeq: seq }: StreamPage,
  { streamId }: Place,
): Promise<boolean> {
  return !request.headers.has("last-event-id") && isRead(parts, { streamId, seq });
}

interface Turn {
  readonly place: Place;
  readonly member: Member;
}

/** Takes the answers of the client: all of them, or none. */
async function take(
  parts: ResumeParts,
  { request, sessionId, mcpOptions }: Asked,
  { place, member }: Turn,
): Promise<Response> {
  const { store, runs, links } = parts;
  const { streamId } = place;
  const body = await readBody(request, mcpOptions?.parsedBody, parts.maxBodyBytes);
  if (body === "too large") return toResponse(problem(413, { reason: "too_large" }));
  if (!Array.isArray(body) || !body.every(isResponse)) return refuse();
  const page = await look(store, place);
  const isWithdrawn = (ask: string): boolean =>
    page.asks.some((each) => each.ask === ask && each.answer === noAnswer);
  const given = body.map((response) => ({
    ask: askName(response.id),
    answer: answerText(response),
  }));
  const answers = given.filter(({ ask }) => !isWithdrawn(ask));
  const isVain = answers.length === 0 && given.length > 0;
  const kept = isVain
    ? "repeated"
    : await store.answer(streamId, answers, Date.now()).catch(tooLarge);
  if (kept === "too large") return toResponse(problem(413, { reason: "too_large" }));
  // of a stream that ended meanwhile, the rest is all that is of use
  if (kept === "refused" && !(await look(store, place)).isOver) return refuse();
  if (kept === undefined) throw new SluiceError("not_found", "resume: the stream is gone");
  const run = runs.of(streamId);
  for (const { ask, answer: text } of answers)
    if (kept !== "refused") await run?.deliver(ask, text);
  // who says nothing of the last event has read up to the question that it answers
  const answered = page.asks.filter(({ ask }) => answers.some((each) => each.ask === ask));
  const seq = request.headers.has("last-event-id")
    ? place.seq
    : Math.max(place.seq, ...answered.map((ask) => ask.seq));
  const next = { streamId, seq };
  const link = links.linkTo(member, next);
  const share = member.owner;
  return eventAnswer(parts, {
    place: next,
    sessionId,
    link,
    primed: false,
    leaves: "asking",
    share,
  });
}

/** What there is to know of a stream. */
async function look(store: EventStore, { streamId, seq: after }: Place): Promise<StreamPage> {
  const page = await store.read(streamId, { after, now: Date.now(), maxEvents: 1 });
  if (!page) throw new SluiceError("not_found", "resume: the stream is gone");
  return page;
}

/** Where the answer begins: behind the last event that the client had, or else where the link says. */
function startOf(request: Request, linked: Place, page: StreamPage): Place | undefined {
  const header = request.headers.get("last-event-id");
  if (header === null) return linked;
  const place = parseEventId(header);
  return place?.streamId === linked.streamId && place.seq <= page.lastSeq ? place : undefined;
}

/** Answers `GET` on the endpoint itself with the id of an event of ours, as clients without links send it. */
export async function answerEventId(
  parts: ResumeParts,
  asked: Asked,
  { place, member }: { readonly place: Place; readonly member: Member },
): Promise<Response | undefined> {
  const { store, links, sluice } = parts;
  const { sessionId } = asked;
  const { streamId, seq } = place;
  await sluice.host.usage.admit(tagOf(member.principal), "request");
  const page = await store.read(streamId, { after: seq, now: Date.now(), maxEvents: 1 });
  if (!page || readRecord(page).owner !== ownerOf(member) || seq > page.lastSeq) return undefined;
  if (await sluice.isSessionOver(sessionId)) return undefined;
  await sluice.host.bindSession(member);
  await takeOver(parts, { streamId, page, asked });
  const link = links.linkTo(member, place);
  // SDKs forget the id that they came with: they come back from here only with one that they got here
  const primed = knowsPriming(asked.request.headers.get("mcp-protocol-version"));
  // no 204 here: this client answers with a POST of its own, and would take it for the end
  // who stays does not come back to have it taken over once nobody holds it
  const adopt = (now: StreamPage) => takeOver(parts, { streamId, page: now, asked });
  const leaves = primed ? "idle" : "never";
  return eventAnswer(parts, { place, sessionId, link, primed, leaves, adopt });
}

/** Whether a version belongs to the era without sessions. */
export function isModernVersion(version: string | null): boolean {
  return version !== null && /^\d{4}-\d\d-\d\d$/.test(version) && version >= FIRST_MODERN_VERSION;
}

/** Whether the server waits for the client. */
function isAsking({ asks, isOver }: StreamPage): boolean {
  return !isOver && asks.some(({ answer: text }) => text === undefined);
}

async function readBody(request: Request, parsedBody: unknown, maxBytes: number): Promise<unknown> {
  if (parsedBody !== undefined) return parsedBody;
  const read = await readRequestBody(request, maxBytes);
  if (read.tooLarge) return "too large";
  try {
    return parseJson(read.text);
  } catch {
    return undefined;
  }
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
const noStore = { "cache-control": "no-store" };
