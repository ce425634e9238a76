import type { Sluice } from "@sluice/server";
import type { CorsTerms, McpFetchHandler, Routes } from "@sluice/transport-http";
import {
  createRoutedHandler,
  createRouter,
  defaultMaxBodySize,
  readJsonBody,
  withRoutes,
} from "@sluice/transport-http/handlers";
import { StreamWriter } from "../stream/stream-writer.ts";
import { createEndpointGet } from "./endpoint-get.ts";
import { createEndpointPost } from "./endpoint-post.ts";
import { createEventAnswers } from "./event-answer.ts";
import { createLinkRoute, type LinkRoute } from "./link-route.ts";
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

  const router = handler.router ?? createRouter(sluice, options);
  const routes = linkRoutes(router.base, answerLink);
  const routed = createRoutedHandler(withRoutes(router, routes), async (request, given) => {
    const session = request.headers.get("mcp-session-id");
    const sessionId = session ?? "";
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

/** The route of the links, for an endpoint that this process sees at `base`. */
function linkRoutes(base: string, answer: LinkRoute): Routes {
  const prefix = `${base}/resume/`;
  return (path) => {
    if (!path.startsWith(prefix)) return undefined;
    const rest = path.slice(prefix.length);
    return {
      kind: "resume",
      credential: "bearer",
      rest,
      cors: linkCors,
      fetch(request, mcpOptions) {
        const sessionId = request.headers.get("mcp-session-id") ?? "";
        return answer({ request, mcpOptions, sessionId }, rest);
      },
    };
  };
}

const linkCors: CorsTerms = {
  methods: ["GET", "POST"],
  headers: "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Session-Id",
};
