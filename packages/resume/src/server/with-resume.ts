import type { Sluice } from "@sluice/server";
import type { EndpointOptions, McpFetchHandler } from "@sluice/transport-http";
import {
  createRoutedHandler,
  createRouter,
  defaultMaxBodySize,
  readJsonBody,
  withRoutes,
} from "@sluice/transport-http/internal";
import { StreamWriter } from "../stream/stream-writer.ts";
import { answerGet, answerPost } from "./endpoint.ts";
import { linkRoutes } from "./link-route.ts";
import { StreamLinks } from "./links.ts";
import {
  readTimes,
  type CloseResumeOptions,
  type ResumeHandler,
  type ResumeOptions,
} from "./options.ts";
import type { ResumeParts } from "./parts.ts";
import { RunningCalls } from "./running-calls.ts";

/**
 * Lets clients pick up the streams of events that answer their requests (SEP-1335), in sessions of MCP 2025-11-25 and
 * older: every such answer has a `Link` with `rel="stream"`, below `<endpoint>/resume/`, and may end before the result.
 * The handler is any that keeps sessions over the SDK's transport. Everything else goes to it untouched, and so do
 * requests of callers without a principal. It goes inside the layer of Sluice, as in `createHandler`.
 *
 * Throws a `RangeError` for a time out of its bounds.
 */
export function withResume(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: ResumeOptions = {},
): ResumeHandler {
  const { stores = sluice.host.stores, onError = sluice.host.onError } = options;
  const store = stores.events;
  const { maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize } = options;
  const times = readTimes(options);
  const { leaseMs, keepMs } = times;
  const terms = { store, keepMs, patienceMs: leaseMs, onError };
  const calls = new RunningCalls({ store, leaseMs, sluice, onError });
  const reruns = options.rerun?.open({ state: sluice.host.stores.state, onError });
  const parts: ResumeParts = {
    ...times,
    handler,
    sluice,
    store,
    calls,
    links: new StreamLinks(sluice, options.linkTtlMs ?? 300_000),
    openWriter: (stream) => new StreamWriter(terms, stream),
    reruns,
    maxBodyBytes: maxRequestBodySize,
    onError,
  };
  const router = handler.router ?? createRouter(sluice, options);
  const routes = linkRoutes(router.base, parts);
  const routed = createRoutedHandler(withRoutes(router, routes), async (request, given) => {
    const session = request.headers.get("mcp-session-id");
    const sessionId = session ?? "";
    const { mcpOptions, refusal } = await readJsonBody(request, given, maxRequestBodySize);
    if (refusal) return refusal;
    const exchange = { request, mcpOptions, sessionId };
    const { method } = request;
    if (method === "GET") return answerGet(parts, exchange);
    // without a session, only the opening of one is of interest
    if (method === "POST" && (session !== null || reruns)) return answerPost(parts, exchange);
    const answer = (): Promise<Response> => handler.fetch(request, mcpOptions);
    if (method !== "DELETE" || session === null) return answer();
    const response = await calls.deleteSession(sessionId, answer);
    if (response.ok) {
      await reruns?.forget(sessionId);
      await sluice.endSession(sessionId);
    }
    return response;
  });
  return { ...routed, maxRequestBodySize, close: (closing) => calls.close(closing) };
}

/** Resumable streams as a part of `createHandler`. */
export interface Resume {
  /** Called by `createHandler`. The options given to `createResume` come before those of the endpoint. */
  wrap(mcp: McpFetchHandler, sluice: Sluice, endpoint: EndpointOptions): ResumeHandler;
  /** Closes the handlers that were made with it, as {@link ResumeHandler} says. */
  close(options?: CloseResumeOptions): Promise<void>;
}

/**
 * Lets clients pick up streams of events (SEP-1335): the part `resume` of `createHandler`, which does what
 * {@link withResume} does.
 */
export function createResume(options: ResumeOptions = {}): Resume {
  const handlers: ResumeHandler[] = [];
  return {
    wrap(mcp, sluice, endpoint) {
      const handler = withResume(mcp, sluice, { ...endpoint, ...options });
      handlers.push(handler);
      return handler;
    },
    async close(closing) {
      await Promise.all(handlers.map((handler) => handler.close(closing)));
    },
  };
}
