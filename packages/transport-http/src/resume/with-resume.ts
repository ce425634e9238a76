import { isLegacyRequest, type McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { STREAM_METHOD } from "@sluice/core/wire";
import { createOriginGate, problem, problemOf, type Sluice } from "@sluice/server";
import { endpointRoute, type CorsTerms, type EndpointRouter } from "../endpoint/router.ts";
import { defaultMaxBodySize, readJsonBody } from "../endpoint/json-body.ts";
import { readBase } from "../endpoint/request-target.ts";
import { createLinks, parseEventId } from "./resume-link.ts";
import { takeAnswers } from "./resume-answers.ts";
import { cancelledBy, isRequest, messagesIn } from "./resume-message.ts";
import { createSessionOpenings } from "./resume-openings.ts";
import type { Asked, ResumeHandler, ResumeParts, WithResumeOptions } from "./resume-options.ts";
import { answerEventId, answerLink, inModernEra, isModernVersion } from "./resume-route.ts";
import { createRuns } from "./resume-runs.ts";
import { memberOf, startStream } from "./resume-start.ts";
import { createRoutedHandler } from "../endpoint/routed-handler.ts";
import { toResponse } from "../endpoint/web-response.ts";
import type { McpFetchHandler } from "../endpoint/sluice-handler.ts";

/**
 * Lets clients pick up the streams of events that answer their requests (SEP-1335), in sessions of MCP
 * 2025-11-25 and older: every such answer has a `Link` with `rel="stream"`, below `<endpoint>/resume/`, and may end
 * before the result. The handler is any that keeps sessions over the SDK's transport. Everything
 * else goes to it untouched, and so do requests of callers whom nobody vouches for. Put it inside `withSluice`, where
 * that is used.
 */
export function withResume(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: WithResumeOptions,
): ResumeHandler {
  const { store, rerun, onError = sluice.host.onError } = options;
  const { router: inner } = handler;
  const base = inner?.base ?? readBase(options.path ?? new URL(sluice.endpoint.url).pathname);
  const prefix = `${base}/resume/`;
  const router: EndpointRouter = {
    base,
    gate: inner?.gate ?? createOriginGate(sluice.endpoint.url, options),
    routes(path) {
      if (!path.startsWith(prefix))
        return inner ? inner.routes(path) : path === (base || "/") ? endpointRoute : undefined;
      const rest = path.slice(prefix.length);
      return { kind: "resume", credential: "bearer", rest, cors: linkCors };
    },
  };
  const { holdMs = 25_000, retryMs = 1_000, leaseMs = 8_000 } = options;
  const { maxAgeMs = 3_600_000, keepMs = 60_000 } = options;
  const { maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize } = options;
  // beyond that a timer goes off at once
  const most = 2 ** 31 - 1;
  for (const [name, ms, least] of [
    ["holdMs", holdMs, 0],
    ["retryMs", retryMs, 0],
    ["leaseMs", leaseMs, 100],
    ["maxAgeMs", maxAgeMs, 1_000],
    ["keepMs", keepMs, 1_000],
  ] as const)
    if (!(Number.isSafeInteger(ms) && ms >= least && ms <= most))
      throw new RangeError(`withResume: ${name} must be a whole number from ${least} to ${most}`);
  const runs = createRuns({ store, leaseMs, sluice, onError });
  const parts: ResumeParts = {
    handler,
    sluice,
    store,
    runs,
    links: createLinks(sluice, options.linkTtlMs ?? 300_000),
    openings: createSessionOpenings({ state: sluice.host.state, onError }),
    rerun,
    holdMs,
    retryMs,
    maxAgeMs,
    keepMs,
    leaseMs,
    maxBodyBytes: maxRequestBodySize,
    onError,
  };
  const routed = createRoutedHandler(router, async (request, given, { kind, rest }) => {
    const session = request.headers.get("mcp-session-id");
    const sessionId = session ?? "";
    // a link knows its caller before it reads a body
    if (kind === "resume")
      return answerLink(parts, { request, mcpOptions: given, sessionId }, rest);
    const { mcpOptions, refusal } = await readJsonBody(request, given, maxRequestBodySize);
    if (refusal) return refusal;
    const asked = { request, mcpOptions, sessionId };
    if (request.method === "GET") return reopen(parts, asked);
    if (session === null && !(rerun && request.method === "POST"))
      return handler.fetch(request, mcpOptions);
    if (request.method === "POST") return post(parts, asked);
    const response = await handler.fetch(request, mcpOptions);
    if (request.method === "DELETE" && response.ok) {
      if (rerun) await parts.openings.forget(asked.sessionId);
      await runs.end(asked.sessionId);
      await sluice.endSession(asked.sessionId);
    }
    return response;
  });
  return { ...routed, maxRequestBodySize, close: (closing) => runs.close(closing) };
}

const linkCors: CorsTerms = {
  methods: ["GET", "POST"],
  headers: "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Session-Id",
};

/** A GET on the endpoint: ours when it names an event of ours. */
async function reopen(parts: ResumeParts, asked: Asked): Promise<Response> {
  const { request, mcpOptions } = asked;
  const eventId = request.headers.get("last-event-id");
  if (eventId !== null && isModernVersion(request.headers.get("mcp-protocol-version")))
    return toResponse(
      problem(405, { reason: "era", detail: inModernEra, headers: ["Allow", "POST"] }),
    );
  const place = parseEventId(eventId);
  if (!place) return parts.handler.fetch(request, mcpOptions);
  try {
    const member = await memberOf(parts, asked);
    const answer = member && (await answerEventId(parts, asked, { place, member }));
    // 404 would tell the client that its session is over
    return answer ?? toResponse(problem(400));
  } catch (error) {
    parts.onError(error);
    return toResponse(problemOf(error));
  }
}

async function post(parts: ResumeParts, asked: Asked): Promise<Response> {
  const { handler, openings, runs } = parts;
  const { request, sessionId, mcpOptions } = asked;
  const body = mcpOptions?.parsedBody;
  if (body === undefined || !(await isLegacyRequest(request, body)))
    return handler.fetch(request, mcpOptions);
  const told: McpHandlerRequestOptions = { ...mcpOptions, parsedBody: body };

  const messages = messagesIn(body);
  const others = await takeAnswers(parts, asked, messages);
  if (others instanceof Response) return others;
  if (others.length === 0) return new Response(null, { status: 202 });
  if (others.length < messages.length) told.parsedBody = others;

  if (!isRequest(body)) {
    const response = await handler.fetch(request, told);
    for (const message of others) {
      const cancelled = cancelledBy(message);
      if (response.ok && cancelled !== undefined) await runs.end(sessionId, cancelled);
    }
    return response;
  }
  if (body.method === "initialize") {
    const response = await handler.fetch(request, told);
    const opened = response.headers.get("mcp-session-id");
    // nobody else's requests are kept, and the store is not for everybody to fill
    if (!parts.rerun || opened === null || !body.params) return response;
    const member = await memberOf(parts, { ...asked, sessionId: opened });
    if (member) await openings.remember(opened, body.params, member.owner);
    return response;
  }
  // its answer may be bytes: withSluice, on either side, must see the request itself
  if (sessionId === "" || body.method === STREAM_METHOD) return handler.fetch(request, told);
  return startStream(parts, asked, body);
}
