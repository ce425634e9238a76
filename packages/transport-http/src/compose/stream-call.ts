import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import { isAnswerTo } from "@sluice/binary-transfer/internal";
import {
  eventsIn,
  HEADER_MISMATCH_CODE,
  isEventStream,
  type LooseRequest,
  NAME_HEADER,
  parseResourceUri,
  type RpcMessage,
} from "@sluice/core/internal";
import { closeReplySlot } from "@sluice/server/internal";
import type { SessionCapabilities } from "../sessions/session-memory.ts";
import {
  errorResponse,
  faultResponse,
  type LayerAnswer,
  sessionHeaderOf,
} from "../endpoint/web-response.ts";
import type { HttpExchange } from "../endpoint/http-exchange.ts";
import { withHeaders } from "../endpoint/router.ts";
import type { McpFetchHandler } from "../endpoint/sluice-handler.ts";

type AnswerCall = (
  request: Request,
  call: LooseRequest,
  mcpOptions: McpHandlerRequestOptions | undefined,
  exchange: HttpExchange,
) => Promise<LayerAnswer>;

/**
 * Makes the function that answers `resources/stream`, and the call for many files. The handler always answers the call; if its server has also filled
 * the reply slot of the request, that is sent instead: bytes, a redirect or an error.
 */
export function createStreamCall(
  handler: McpFetchHandler,
  capabilities: SessionCapabilities,
): AnswerCall {
  return async (original, call, mcpOptions, exchange) => {
    if (isMisnamed(original, call)) return errorResponse(400, headerMismatch, { id: call.id });
    const request = withSdkAccept(original);
    if (request !== original) exchange.tie(request);
    const slot = exchange.openSlot(request, {
      capabilities: capabilities.of(request.headers.get("mcp-session-id")),
    });
    try {
      // `parsedBody` spares the SDK reading the request; a clone that it makes still leads to this exchange
      const inner = await handler.fetch(request, { ...mcpOptions, parsedBody: call });
      let response = inner;
      if (inner.body && isEventStream(inner.headers)) {
        // the SDK responds before its handler has run: the result is the last event
        const message = await answerIn(inner.body, call);
        const headers = sessionHeaderOf(inner);
        response = message
          ? Response.json(message, { headers })
          : errorResponse(200, noAnswer, { id: call.id, headers });
      }
      const { reply, fault } = slot;
      if (!response.ok || (!reply && !fault)) return response;
      await inner.body?.cancel().catch(() => {});
      if (fault) return faultResponse(fault, call, sessionHeaderOf(inner));
      // taken: closing the slot discards a reply that is still in it
      delete slot.reply;
      return withHeaders(reply!, Object.entries(sessionHeaderOf(inner)).flat());
    } finally {
      closeReplySlot(slot);
    }
  };
}

const headerMismatch = {
  code: HEADER_MISMATCH_CODE,
  message: "Header mismatch: Mcp-Name names another resource than params.uri",
};
const noAnswer = { code: -32_603, message: "Internal error" };

/**
 * True when `Mcp-Name` names another resource than the body: a gateway in front would judge the one
 * and the server answer the other. The SDK looks at the methods of the specification only.
 */
function isMisnamed(request: Request, { params }: LooseRequest): boolean {
  const name = request.headers.get(NAME_HEADER);
  const uri = params?.["uri"];
  return name !== null && typeof uri === "string" && parseResourceUri(name) !== uri;
}

/** The response in a stream of events; `undefined` when it ends without one. The rest is cancelled. */
async function answerIn(
  body: ReadableStream<Uint8Array>,
  call: LooseRequest,
): Promise<RpcMessage | undefined> {
  for await (const { message } of eventsIn(body, { operation: "http" }))
    if (isAnswerTo(message, call)) return message;
  return undefined;
}

/** The `Accept` that the SDK requires of a POST in a session, and `*\/*` of SEP-2532. */
const accepted = "application/json, text/event-stream, */*";

/**
 * Gives the request itself if its `Accept` suits the SDK, or accepts no JSON and must be refused. Otherwise a copy
 * without a body and with an `Accept` that suits; pass the body as `parsedBody`. The SDK rejects
 * `application/json, *\/*`, which SEP-2532 (open question 4) requires of clients, and all else without
 * `text/event-stream`, although we never send the client an event stream for `resources/stream`.
 */
function withSdkAccept(request: Request): Request {
  const accept = request.headers.get("accept");
  if (accept?.includes("application/json") && accept.includes("text/event-stream")) return request;
  if (accept !== null && !takesJson(accept)) return request;
  const headers = new Headers(request.headers);
  headers.set("accept", accepted);
  const { url, method, signal } = request;
  return new Request(url, { method, headers, signal });
}

/** Whether an `Accept` allows JSON (RFC 9110 §12.5.1). Weights are ignored. */
function takesJson(accept: string): boolean {
  const ranges = accept.split(",").map((range) => range.split(";", 1)[0]!.trim().toLowerCase());
  return ["application/json", "application/*", "*/*"].some((range) => ranges.includes(range));
}
