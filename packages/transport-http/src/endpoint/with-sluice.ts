import { definedMembers } from "@sluice/core";
import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import type { Sluice } from "@sluice/server";
import {
  closeReplySlot,
  createOriginGate,
  notesOf,
  openReplySlot,
  type OriginGateOptions,
  type RpcFault,
} from "@sluice/server/transport";
import { HEADER_MISMATCH_CODE, STREAM_METHOD } from "@sluice/core/wire";
import { boundEvents, hasEvents } from "../events/bound-events.ts";
import { ensureHandler, ensureSluice } from "./ensure-arguments.ts";
import { endpointRoute, withHeaders, type EndpointRouter } from "./router.ts";
import { createDownloadRoutes } from "../download/download-route.ts";
import { answerIn } from "../events/event-answer.ts";
import { defaultMaxBodySize, readJsonBody } from "./json-body.ts";
import { holdHead } from "../events/held-answer.ts";
import { createSessionCapabilities } from "../sessions/session-capabilities.ts";
import { admitSessionRequest } from "../sessions/session-requests.ts";
import { mergeEvents } from "../events/merge-events.ts";
import { readBase } from "./request-target.ts";
import { createRoutedHandler, passOn } from "./routed-handler.ts";
import { acceptStream } from "./stream-accept.ts";
import {
  callIn,
  isMisnamed,
  isResourceMethod,
  LISTEN_METHOD,
  type RpcRequest,
} from "./stream-call.ts";
import type { McpFetchHandler, SluiceHandler } from "./sluice-handler.ts";
import { toResponse } from "./web-response.ts";
import { headerReader } from "./web-request.ts";

/** Options of {@link withSluice}. */
export interface WithSluiceOptions extends OriginGateOptions {
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `endpoint`. */
  readonly path?: string;
  /**
   * Largest JSON of a request, in bytes; more is answered with 413. Default: that of `handler`, else 256 KiB. Raise it for
   * tools with large arguments.
   */
  readonly maxRequestBodySize?: number;
  /**
   * Bytes of events that may wait for a client that does not read; more break its stream off. One event may be larger.
   * Default 16 MiB.
   */
  readonly maxBufferedBytes?: number;
}

/**
 * Adds Sluice to an MCP handler: `resources/stream` may answer with bytes or a redirect, and
 * `<endpoint>/streams/<token>` serves downloads. In a `subscriptions/listen` stream it tells what changed. Every other
 * request to exactly the endpoint goes to `handler` untouched; other paths are 404, unless `handler` itself has routes there.
 * Of every request the target is read once, and `Host` and `Origin` are checked, before anything else: 400, 421, 403.
 * Throws a `TypeError` for a `path` or an origin that no request can name, and for anything but a handler and a Sluice.
 */
export function withSluice(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: WithSluiceOptions = {},
): SluiceHandler {
  ensureHandler("withSluice", handler);
  ensureSluice("withSluice", sluice);
  const { maxBufferedBytes = 2 ** 24 } = options;
  const { maxRequestBodySize = handler.maxRequestBodySize ?? defaultMaxBodySize } = options;
  const base = readBase(options.path ?? new URL(sluice.endpoint.url).pathname);
  const streams = createDownloadRoutes(sluice, base);
  const router: EndpointRouter = {
    base,
    gate: createOriginGate(sluice.endpoint.url, options),
    routes: (path) =>
      path === (base || "/") ? endpointRoute : (streams(path) ?? handler.router?.routes(path)),
  };
  const sessions = createSessionCapabilities(({ resourceStreaming }) =>
    // the SDK drops the literal field of SEP-2532
    resourceStreaming === undefined ? undefined : { resourceStreaming },
  );

  async function stream(
    given: Request,
    call: RpcRequest,
    mcpOptions: McpHandlerRequestOptions | undefined,
  ): Promise<Response> {
    if (isMisnamed(given, call)) return Response.json(misnamed(call), { status: 400 });
    const request = acceptStream(given);
    if (request !== given) passOn(request, endpointRoute);
    const slot = openReplySlot(request, {
      capabilities: sessions.of(request.headers.get("mcp-session-id")),
    });
    try {
      // with a parsed body the SDK makes no copy of the request: the handler sees this very object
      const inner = await handler.fetch(request, { ...mcpOptions, parsedBody: call });
      const type = inner.headers.get("content-type") ?? "";
      let response = inner;
      if (type.startsWith("text/event-stream") && inner.body) {
        // the SDK answers before its handler has run; what it says last is what counts
        const message = await answerIn(inner.body, call.id);
        response = Response.json(message ?? noAnswer(call), { headers: sessionOf(inner) });
      }
      const { reply, fault } = slot;
      if (!response.ok || (!reply && !fault)) return response;
      await inner.body?.cancel().catch(() => {});
      if (fault) return faultResponse(fault, call, sessionOf(inner));
      delete slot.reply;
      return toResponse(withHeaders(reply!, Object.entries(sessionOf(inner)).flat()));
    } finally {
      closeReplySlot(slot);
    }
  }

  /** The SDK acknowledges and keeps the stream; changes of our resources are put into it. */
  async function listen(
    request: Request,
    call: RpcRequest,
    mcpOptions: McpHandlerRequestOptions | undefined,
  ): Promise<Response> {
    const listening = await sluice.listen({
      id: call.id,
      params: call.params,
      caller: {
        address: notesOf(request).address,
        authInfo: mcpOptions?.authInfo,
        header: headerReader(request),
      },
      signal: request.signal,
    });
    if ("fault" in listening) return faultResponse(listening.fault, call, {});
    try {
      const { params } = listening;
      const response = await handler.fetch(request, {
        ...mcpOptions,
        parsedBody: params ? { ...call, params } : call,
      });
      const bounded = bound(request, response);
      const type = bounded.headers.get("content-type") ?? "";
      if (bounded.ok && bounded.body && type.startsWith("text/event-stream")) {
        const { status, headers } = bounded;
        return new Response(mergeEvents(bounded.body, listening), { status, headers });
      }
      listening.close();
      return response;
    } catch (error) {
      listening.close();
      throw error;
    }
  }

  /** A call whose answer is replaced when its caller has to sign in. */
  async function ask(
    request: Request,
    call: RpcRequest,
    mcpOptions: McpHandlerRequestOptions | undefined,
  ): Promise<Response> {
    let onIdentified: (() => void) | undefined;
    const decided = new Promise<void>((resolve) => void (onIdentified = resolve));
    const slot = openReplySlot(request, { onIdentified: () => onIdentified?.() });
    try {
      const response = await holdHead(await handler.fetch(request, mcpOptions), decided);
      if (!slot.fault) return bound(request, response);
      await response.body?.cancel().catch(() => {});
      return faultResponse(slot.fault, call, sessionOf(response));
    } finally {
      closeReplySlot(slot);
    }
  }

  /** An answer of the handler, with no more of its events in memory than may be. */
  function bound(request: Request, response: Response): Response {
    if (!hasEvents(response)) return response;
    const { status, headers, body } = response;
    const { unsent } = notesOf(request);
    return new Response(boundEvents(body, { maxBytes: maxBufferedBytes, unsent }), {
      status,
      headers,
    });
  }

  const routed = createRoutedHandler(router, async (request, given, route) => {
    if (route.kind !== "mcp") return handler.fetch(request, given);
    const { mcpOptions, refusal } = await readJsonBody(request, given, maxRequestBodySize);
    if (refusal) return refusal;
    const call = request.method === "POST" ? callIn(mcpOptions?.parsedBody) : undefined;
    if (call?.method === STREAM_METHOD) return stream(request, call, mcpOptions);
    if (call?.method === LISTEN_METHOD) return listen(request, call, mcpOptions);
    if (call && isResourceMethod(call.method)) return ask(request, call, mcpOptions);
    // an `initialize` or the end of a session
    const admission =
      call || request.method === "DELETE"
        ? await admitSessionRequest(sluice, request, mcpOptions?.authInfo)
        : undefined;
    if (admission?.refused) return admission.refused;
    const response = bound(request, await handler.fetch(request, mcpOptions));
    if (call) sessions.remember(call, response.headers.get("mcp-session-id"), admission?.owner);
    const sessionId = request.headers.get("mcp-session-id");
    if (request.method === "DELETE" && sessionId !== null && response.ok) {
      sessions.forget(sessionId);
      await sluice.endSession(sessionId);
    }
    return response;
  });
  return { ...routed, maxRequestBodySize };
}

function sessionOf(response: Response): Record<string, string> {
  const id = response.headers.get("mcp-session-id");
  return id === null ? {} : { "mcp-session-id": id };
}

function faultResponse(
  { status, code, message, data, challenge }: RpcFault,
  { id }: RpcRequest,
  session: Record<string, string>,
): Response {
  return Response.json(
    { jsonrpc: "2.0", id, error: { code, message, data } },
    {
      status,
      headers: definedMembers({
        "cache-control": "no-store",
        ...session,
        "www-authenticate": challenge,
      }),
    },
  );
}

function misnamed({ id }: RpcRequest): object {
  const message = "Header mismatch: Mcp-Name names another resource than params.uri";
  return { jsonrpc: "2.0", id, error: { code: HEADER_MISMATCH_CODE, message } };
}

function noAnswer({ id }: RpcRequest): object {
  return { jsonrpc: "2.0", id, error: { code: -32603, message: "Internal error" } };
}
