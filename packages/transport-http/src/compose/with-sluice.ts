import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import {
  isEventStream,
  isRequest,
  LISTEN_METHOD,
  type LooseRequest,
  STREAM_METHOD,
  TREE_METHOD,
} from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import { closeReplySlot } from "@sluice/server/internal";
import { createDownloadRoutes } from "../download/download-route.ts";
import { boundEvents, hasEvents, holdHead } from "../events/bound-events.ts";
import { mergeEvents } from "../events/merge-events.ts";
import { admitSessionRequest } from "../sessions/session-caller.ts";
import { createSessionCapabilities } from "../sessions/session-memory.ts";
import { faultResponse, type LayerAnswer, sessionHeaderOf } from "../endpoint/web-response.ts";
import { defaultMaxBodySize, readJsonBody } from "../endpoint/json-body.ts";
import type { HttpExchange } from "../endpoint/http-exchange.ts";
import { createRoutedHandler } from "../endpoint/routed-handler.ts";
import { createRouter, withRoutes, type EndpointOptions } from "../endpoint/router.ts";
import type { McpFetchHandler, SluiceHandler } from "../endpoint/sluice-handler.ts";
import { createStreamCall } from "./stream-call.ts";
import { headerReader } from "../endpoint/web-request.ts";

/** How `createHandler` serves the endpoint. */
export interface WithSluiceOptions extends EndpointOptions {
  /**
   * Largest JSON of a request, in bytes; more is answered with 413. Default: that of `handler`, else 4 MiB. Raise it for
   * tools with large arguments.
   */
  readonly maxRequestBodySize?: number;
  /**
   * Bytes of events that may wait for a client that does not read; more end its stream. One event may be larger.
   * Default 16 MiB.
   */
  readonly maxBufferedBytes?: number;
}

/**
 * Adds Sluice to an MCP handler: `resources/stream` may answer with bytes or a redirect, `<endpoint>/streams/<token>` and
 * `<endpoint>/d/<token>` serve downloads and links. In a `subscriptions/listen` stream it tells what changed. Every other
 * request to exactly the endpoint goes to `handler`, with its JSON parsed and its events bounded; other paths are 404, unless
 * `handler` itself has routes there.
 * Checks the target (400), `Host` (421) and `Origin` (403) of every request before anything else.
 * Throws a `TypeError` for a `path` or an origin that no request can name.
 */
export function withSluice(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: WithSluiceOptions = {},
): SluiceHandler {
  const { maxBufferedBytes = 2 ** 24 } = options;
  const { maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize } = options;
  const ownRouter = createRouter(sluice, options);
  const routed = withRoutes(ownRouter, createDownloadRoutes(sluice, ownRouter.base));
  const router = handler.router ? withRoutes(routed, handler.router.routes) : routed;
  const sessions = createSessionCapabilities(({ resourceStreaming }) =>
    // the SDK drops the literal field of SEP-2532
    resourceStreaming === undefined ? undefined : { resourceStreaming },
  );
  const stream = createStreamCall(handler, sessions);

  /** Lets the SDK acknowledge and keep the stream, and adds the changes of our resources to it. */
  async function listen(
    request: Request,
    call: LooseRequest,
    mcpOptions: McpHandlerRequestOptions | undefined,
    exchange: HttpExchange,
  ): Promise<Response> {
    const listening = await sluice.host.listen({
      id: call.id,
      params: call.params,
      caller: {
        address: exchange.address,
        authInfo: mcpOptions?.authInfo,
        header: headerReader(request),
      },
      signal: request.signal,
    });
    if ("fault" in listening) return faultResponse(listening.fault, call);
    try {
      const { params } = listening;
      const response = await handler.fetch(request, {
        ...mcpOptions,
        parsedBody: params ? { ...call, params } : call,
      });
      const bounded = boundResponse(response, exchange);
      if (bounded.ok && bounded.body && isEventStream(bounded.headers)) {
        const { status, headers } = bounded;
        return new Response(mergeEvents(bounded.body, listening), { status, headers });
      }
      listening.close();
      return bounded;
    } catch (error) {
      listening.close();
      throw error;
    }
  }

  /** Answers a call; with 401 in place of the handler's response if its caller has to sign in. */
  async function callWithSignIn(
    request: Request,
    call: LooseRequest,
    mcpOptions: McpHandlerRequestOptions | undefined,
    exchange: HttpExchange,
  ): Promise<Response> {
    let onIdentified: (() => void) | undefined;
    const decided = new Promise<void>((resolve) => void (onIdentified = resolve));
    const slot = exchange.openSlot(request, { onIdentified: () => onIdentified?.() });
    try {
      const response = await holdHead(await handler.fetch(request, mcpOptions), decided);
      if (!slot.fault) return boundResponse(response, exchange);
      await response.body?.cancel().catch(() => {});
      return faultResponse(slot.fault, call, sessionHeaderOf(response));
    } finally {
      closeReplySlot(slot);
    }
  }

  /** A response of the handler with at most `maxBufferedBytes` of its events in memory. */
  function boundResponse(response: Response, { unsent }: HttpExchange): Response {
    if (!hasEvents(response)) return response;
    const { status, headers, body } = response;
    return new Response(boundEvents(body, { maxBytes: maxBufferedBytes, unsent }), {
      status,
      headers,
    });
  }

  async function serve(
    request: Request,
    given: McpHandlerRequestOptions | undefined,
    exchange: HttpExchange,
  ): Promise<LayerAnswer> {
    const { mcpOptions, refusal } = await readJsonBody(request, given, maxRequestBodySize);
    if (refusal) return refusal;
    const call = request.method === "POST" ? callIn(mcpOptions?.parsedBody) : undefined;
    if (call?.method === STREAM_METHOD || call?.method === TREE_METHOD)
      return stream(request, call, mcpOptions, exchange);
    if (call?.method === LISTEN_METHOD) return listen(request, call, mcpOptions, exchange);
    if (call && mayNeedSignIn(call.method))
      return callWithSignIn(request, call, mcpOptions, exchange);
    const isOpening = call?.method === "initialize";
    const isEnding = request.method === "DELETE";
    const admission =
      isOpening || isEnding
        ? await admitSessionRequest(sluice, request, mcpOptions?.authInfo)
        : undefined;
    if (admission?.refusal) return admission.refusal;
    if (admission) exchange.sessionOwner = admission.owner;
    const response = boundResponse(await handler.fetch(request, mcpOptions), exchange);
    if (isOpening)
      sessions.remember(call, response.headers.get("mcp-session-id"), admission?.owner);
    const sessionId = request.headers.get("mcp-session-id");
    if (isEnding && sessionId !== null && response.ok) {
      sessions.forget(sessionId);
      await sluice.endSession(sessionId);
    }
    return response;
  }

  return { ...createRoutedHandler(router, serve), maxRequestBodySize };
}

/** The requests that this layer must see. */
const watchedMethods: readonly string[] = [
  STREAM_METHOD,
  TREE_METHOD,
  LISTEN_METHOD,
  "initialize",
  "completion/complete",
  "resources/list",
  "resources/read",
  "resources/subscribe",
  "resources/templates/list",
  "resources/unsubscribe",
];

/** The call in a parsed body when it is one of ours. Everything odd is `undefined`: the SDK answers that. */
function callIn(body: unknown): LooseRequest | undefined {
  return isRequest(body) && watchedMethods.includes(body.method) ? body : undefined;
}

/** True for a method that is refused with 401 to a caller that has to sign in. */
function mayNeedSignIn(method: string): boolean {
  return method.startsWith("resources/") || method === "completion/complete";
}
