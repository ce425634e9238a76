import type { Sluice } from "@sluice/server";
import { createOriginGate } from "@sluice/server/transport";
import type { CorsTerms, EndpointRouter, McpFetchHandler } from "@sluice/transport-http";
import {
  createRoutedHandler,
  defaultMaxBodySize,
  endpointRoute,
  readBase,
  readJsonBody,
} from "@sluice/transport-http/handlers";
import { StreamWriter } from "../stream/stream-writer.ts";
import { createEndpointGet } from "./endpoint-get.ts";
import { createEndpointPost } from "./endpoint-post.ts";
import { createEventAnswers } from "./event-answer.ts";
import { createLinkRoute } from "./link-route.ts";
import { createStreamLinks } from "./links.ts";
import { readTimes, type ResumeHandler, type WithResumeOptions } from "./options.ts";
import type { ResumeParts } from "./parts.ts";
import { createRunningCalls } from "./running-calls.ts";
import { createStreamStart } from "./start-stream.ts";
import { createAnswerTaking } from "./take-answers.ts";
import { createTakeOver } from "./take-over.ts";

/**
 * Lets clients pick up the streams of events that answer their requests (SEP-1335), in sessions of MCP 2025-11-25 and
 * older: every such answer has a `Link` with `rel="stream"`, below `<endpoint>/resume/`, and may end before the result.
 * The handler is any that keeps sessions over the SDK's transport. Everything else goes to it untouched, and so do
 * requests of callers without a principal. Put it inside `withSluice`, where that is used.
 *
 * Throws a `RangeError` for a time out of its bounds.
 */
export function withResume(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: WithResumeOptions,
): ResumeHandler {
  const { store, onError = sluice.host.onError } = options;
  const { maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize } = options;
  const router = createRouter(handler, sluice, options);
  const times = readTimes(options);
  const { leaseMs, keepMs } = times;
  const terms = { store, keepMs, patienceMs: leaseMs, onError };
  const calls = createRunningCalls({ store, leaseMs, sluice, onError });
  const reruns = options.rerun?.open({ state: sluice.host.state, onError });
  const parts: ResumeParts = {
    ...times,
    handler,
    sluice,
    store,
    calls,
    links: createStreamLinks(sluice, options.linkTtlMs ?? 300_000),
    openWriter: (stream) => new StreamWriter(terms, stream),
    reruns,
    maxBodyBytes: maxRequestBodySize,
    onError,
  };
  const answerWithEvents = createEventAnswers(parts);
  const takeOver = createTakeOver(parts);
  const startStream = createStreamStart(parts, answerWithEvents);
  const post = createEndpointPost(parts, startStream, createAnswerTaking(parts));
  const get = createEndpointGet(parts, takeOver, answerWithEvents);
  const answerLink = createLinkRoute(parts, takeOver, answerWithEvents);

  const routed = createRoutedHandler(router, async (request, given, { kind, rest }) => {
    const session = request.headers.get("mcp-session-id");
    const sessionId = session ?? "";
    // a link knows its caller before it reads a body
    if (kind === "resume") return answerLink({ request, mcpOptions: given, sessionId }, rest);
    const { mcpOptions, refusal } = await readJsonBody(request, given, maxRequestBodySize);
    if (refusal) return refusal;
    const asked = { request, mcpOptions, sessionId };
    const { method } = request;
    if (method === "GET") return get(asked);
    // without a session, only the opening of one is of interest
    if (method === "POST" && (session !== null || reruns)) return post(asked);
    const response = await handler.fetch(request, mcpOptions);
    if (method === "DELETE" && session !== null && response.ok) {
      // first, and at once: the relays see their streams end by now
      await calls.end(sessionId);
      await reruns?.forget(sessionId);
      await sluice.endSession(sessionId);
    }
    return response;
  });
  return { ...routed, maxRequestBodySize, close: (closing) => calls.close(closing) };
}

/** The router of the handler inside, or a new one, with the route of the links. */
function createRouter(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: WithResumeOptions,
): EndpointRouter {
  const { router: inner } = handler;
  const base = inner?.base ?? readBase(options.path ?? new URL(sluice.endpoint.url).pathname);
  const prefix = `${base}/resume/`;
  return {
    base,
    gate: inner?.gate ?? createOriginGate(sluice.endpoint.url, options),
    routes(path) {
      if (!path.startsWith(prefix))
        return inner ? inner.routes(path) : path === (base || "/") ? endpointRoute : undefined;
      const rest = path.slice(prefix.length);
      return { kind: "resume", credential: "bearer", rest, cors: linkCors };
    },
  };
}

const linkCors: CorsTerms = {
  methods: ["GET", "POST"],
  headers: "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Session-Id",
};
