import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import {
  closeStreamSlot,
  createOriginGate,
  openStreamSlot,
  type OriginGateOptions,
  type Reply,
  type RpcFault,
  type Sluice,
} from "@sluice/server";
import { HEADER_MISMATCH_CODE, STREAM_METHOD } from "@sluice/core/wire";
import { createDownloadRoute } from "./download-route.ts";
import { answerIn } from "./event-answer.ts";
import { createSessionCapabilities } from "./session-capabilities.ts";
import { mergeEvents } from "./merge-events.ts";
import type { PlainRoute } from "./plain-route.ts";
import { callIn, isMisnamed, LISTEN_METHOD, type RpcCall } from "./stream-call.ts";
import { toResponse } from "./web-response.ts";
import { answerPlainly, headerReader } from "./web-request.ts";

/** A fetch-shaped MCP handler: that of `createMcpHandler`, or one of your own over the SDK's transports. */
export interface McpFetchHandler {
  fetch(request: Request, options?: McpHandlerRequestOptions): Promise<Response>;
}

/** Options of {@link withSluice}. */
export interface WithSluiceOptions extends OriginGateOptions {
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `endpoint`. */
  readonly path?: string;
  /** Largest request body that is looked at, in bytes. Default 4 MiB, as in the SDK. */
  readonly maxRequestBodySize?: number;
}

/** A handler that serves the MCP endpoint and the download route below it. */
export interface SluiceHandler extends McpFetchHandler {
  /** The routes beside the endpoint on plain values, for adapters that would rather not build web objects. */
  readonly plain: PlainRoute;
}

/**
 * Adds Sluice to an MCP handler: `resources/stream` may answer with bytes or a redirect, and
 * `<endpoint>/streams/<token>` serves downloads. In a `subscriptions/listen` stream it tells what changed. Every other
 * request goes to `handler` untouched.
 * `Host` and `Origin` are checked on the two of Sluice; the rest of the endpoint keeps the checks
 * that it has.
 */
export function withSluice(
  handler: McpFetchHandler,
  sluice: Sluice,
  options: WithSluiceOptions = {},
): SluiceHandler {
  const { maxRequestBodySize } = options;
  const gate = createOriginGate(sluice.endpoint.url, options);
  const path = options.path ?? new URL(sluice.endpoint.url).pathname;
  const plain = createDownloadRoute(sluice, gate, path.replace(/\/+$/, ""));
  const sessions = createSessionCapabilities(({ resourceStreaming }) =>
    // the SDK drops the literal field of SEP-2532
    resourceStreaming === undefined ? undefined : { resourceStreaming },
  );

  async function stream(
    request: Request,
    call: RpcCall,
    mcpOptions: McpHandlerRequestOptions | undefined,
  ): Promise<Response> {
    const asked = { header: headerReader(request) };
    const refused = gate.refuse(asked);
    if (refused) return toResponse(refused);
    if (isMisnamed(request, call)) return Response.json(misnamed(call), { status: 400 });
    const slot = openStreamSlot(request, sessions.of(request.headers.get("mcp-session-id")));
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
      const extra = [...gate.corsHeaders(asked), ...Object.entries(sessionOf(inner)).flat()];
      return toResponse(withHeaders(reply!, extra));
    } finally {
      closeStreamSlot(slot);
    }
  }

  /** The SDK acknowledges and keeps the stream; changes of our resources are put into it. */
  async function listen(
    request: Request,
    call: RpcCall,
    mcpOptions: McpHandlerRequestOptions | undefined,
  ): Promise<Response> {
    const listening = await sluice.listen({
      id: call.id,
      params: call.params,
      caller: { authInfo: mcpOptions?.authInfo, header: headerReader(request) },
      signal: request.signal,
    });
    if ("fault" in listening) return faultResponse(listening.fault, call, {});
    try {
      const { params } = listening;
      const response = await handler.fetch(request, {
        ...mcpOptions,
        parsedBody: params ? { ...call, params } : call,
      });
      const type = response.headers.get("content-type") ?? "";
      if (response.ok && response.body && type.startsWith("text/event-stream")) {
        const { status, headers } = response;
        return new Response(mergeEvents(response.body, listening), { status, headers });
      }
      listening.close();
      return response;
    } catch (error) {
      listening.close();
      throw error;
    }
  }

  return {
    plain,
    async fetch(request, mcpOptions) {
      const answered = answerPlainly(plain, request, mcpOptions?.authInfo);
      if (answered) return answered;
      const call = await callIn(request, mcpOptions?.parsedBody, maxRequestBodySize);
      if (call?.method === STREAM_METHOD) return stream(request, call, mcpOptions);
      if (call?.method === LISTEN_METHOD) return listen(request, call, mcpOptions);
      const response = await handler.fetch(request, mcpOptions);
      if (call) sessions.remember(call, response.headers.get("mcp-session-id"));
      const sessionId = request.headers.get("mcp-session-id");
      if (request.method === "DELETE" && sessionId !== null && response.ok) {
        sessions.forget(sessionId);
        await sluice.endSession(sessionId);
      }
      return response;
    },
  };
}

function sessionOf(response: Response): Record<string, string> {
  const id = response.headers.get("mcp-session-id");
  return id === null ? {} : { "mcp-session-id": id };
}

function withHeaders(reply: Reply, extra: readonly string[]): Reply {
  return extra.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...extra] };
}

function faultResponse(
  { status, code, message, data, challenge }: RpcFault,
  { id }: RpcCall,
  session: Record<string, string>,
): Response {
  return Response.json(
    { jsonrpc: "2.0", id, error: { code, message, data } },
    {
      status,
      headers: {
        "cache-control": "no-store",
        ...session,
        ...(challenge !== undefined && { "www-authenticate": challenge }),
      },
    },
  );
}

function misnamed({ id }: RpcCall): object {
  const message = "Header mismatch: Mcp-Name names another resource than params.uri";
  return { jsonrpc: "2.0", id, error: { code: HEADER_MISMATCH_CODE, message } };
}

function noAnswer({ id }: RpcCall): object {
  return { jsonrpc: "2.0", id, error: { code: -32603, message: "Internal error" } };
}
