import { type FetchLike, SluiceError } from "@sluice/core";
import {
  contentCodings,
  httpError,
  onAbort,
  parseMediaType,
  readJson,
  RESOURCE_URI_HEADER,
  systemClock,
} from "@sluice/core/internal";
import type { HopExchange, HopAnswer } from "../net/exchange.ts";
import { createFetchExchange } from "../net/fetch-exchange.ts";
import { isRedirect, isSuccess, retryAfterOf } from "../net/http-status.ts";
import { unanswered } from "../net/timeouts.ts";
import { createLoader } from "../net/load-code.ts";
import { answerIn, readBeginning, readMessage } from "./rpc-answer.ts";
import { CALL_META, outgoingCall, type CallAnswer, type StreamCall } from "./stream-calls.ts";

/**
 * The fetch of `createStreaming` alone: it takes the responses to `resources/stream` aside for `streamResource`. Every
 * other request goes to `fetch` as it is, by default the platform's own.
 */
export function withStreaming(fetch: FetchLike = globalThis.fetch): FetchLike {
  return interceptFetch(fetch, createFetchExchange(fetch));
}

/** The middleware over any exchange for the stream calls. */
export function interceptFetch(fetch: FetchLike, exchange: HopExchange): FetchLike {
  return async (input, init) => {
    const request = readRequest(init);
    return request ? intercept(request, new URL(input), init ?? {}, exchange) : fetch(input, init);
  };
}

interface InterceptedRequest {
  readonly call: StreamCall;
  readonly id: unknown;
  readonly body: string;
}

/** The stream call in a POST, with the body as it goes over the wire; `undefined` for anything else. */
function readRequest(init: RequestInit | undefined): InterceptedRequest | undefined {
  const text = init?.body;
  if (init?.method !== "POST" || typeof text !== "string" || !text.includes(CALL_META))
    return undefined;
  const outgoing = outgoingCall(readJson(text).value);
  if (!outgoing) return undefined;
  const { call, id, message } = outgoing;
  return { call, id, body: JSON.stringify(message) };
}

async function intercept(
  request: InterceptedRequest,
  url: URL,
  init: RequestInit,
  exchange: HopExchange,
): Promise<Response> {
  const { call } = request;
  const headers = Object.fromEntries(new Headers(init.headers));
  const { authorization, "mcp-session-id": sessionId } = headers;
  const connection = { exchange, credentials: { endpoint: url, authorization, sessionId } };
  try {
    return await whileOpening(call, init.signal, async (signal) => {
      const answer = await exchange({
        method: "POST",
        url,
        // SDK servers of legacy revisions refuse unless both standard types are named
        headers: {
          ...headers,
          accept: "application/json, text/event-stream, */*",
          "accept-encoding": "identity",
        },
        body: request.body,
        signal,
        scope: "any",
        connectMs: call.connectMs,
      });
      const { status, address } = answer;
      const { response, ...rest } = await sortAnswer(answer, request);
      call.answer = { ...connection, status, address, ...rest };
      return response;
    });
  } catch (error) {
    if (SluiceError.is(error)) call.answer = { ...connection, status: 0, failure: error };
    throw error;
  }
}

/**
 * Bounds the wait for headers, and for the whole of a response that is one message. The transport's signal ends that
 * wait only: the bytes outlast the request.
 */
async function whileOpening(
  { signal, headersMs }: StreamCall,
  outer: AbortSignal | null | undefined,
  run: (signal: AbortSignal) => Promise<Response>,
): Promise<Response> {
  const stop = new AbortController();
  const abort = (reason: unknown): void => stop.abort(reason);
  // while the bytes come; both signals go together
  onAbort(signal, abort);
  const removeListener = onAbort(outer ?? undefined, abort);
  const stopTimer = systemClock.schedule(() => stop.abort(unanswered()), headersMs);
  try {
    return await run(stop.signal);
  } finally {
    stopTimer();
    removeListener();
  }
}

type SortedAnswer = Pick<CallAnswer, "direct" | "redirect" | "failure"> & {
  readonly response: Response;
};

/** Sorts a response: bytes and redirects are kept aside, JSON-RPC and challenges go on to the SDK. */
async function sortAnswer(answer: HopAnswer, request: InterceptedRequest): Promise<SortedAnswer> {
  const { status, headers, body } = answer;
  if (isRedirect(status)) {
    body.cancel();
    return { redirect: headers, response: placeholder(request) };
  }
  const essence = parseMediaType(headers.get("content-type"))?.essence;
  const coded = contentCodings(headers.get("content-encoding")).length > 0;
  const ok = isSuccess(status);
  const { call } = request;
  // the name of the resource alongside makes them its bytes, whatever their type
  const isBytes = call.bytesType ? call.bytesType === essence : headers.has(RESOURCE_URI_HEADER);
  if (ok && isBytes) return { direct: answer, response: placeholder(request) };
  if (status === 401 || status === 403)
    return { response: respond(answer, await readBeginning(body)) };
  const what = `${call.method} ${JSON.stringify(call.uri)}`;
  const readOptions = { what, id: request.id, answerMs: call.headersMs };
  if (!ok) {
    const failure = httpError(what, status, { retryAfterMs: retryAfterOf(answer) });
    if (essence === "application/json" || essence === "application/problem+json") {
      try {
        // a refusal in JSON-RPC says more than its status
        const text = answerIn(await readMessage(body, readOptions), readOptions);
        return { response: respond({ status: 200, headers }, text) };
      } catch (error) {
        if (!SluiceError.is(error)) throw error;
      }
    }
    body.cancel();
    return { failure, response: placeholder(request) };
  }
  if (!coded && essence === "application/json")
    return {
      response: respond(answer, answerIn(await readMessage(body, readOptions), readOptions)),
    };
  if (!coded && essence === "text/event-stream") {
    const { watchEvents } = await loadEvents().catch((error: unknown) => {
      body.cancel(error);
      throw error;
    });
    const events = watchEvents(body, readOptions, (failure) => {
      if (call.answer) call.answer = { ...call.answer, failure };
    });
    return { response: respond(answer, events) };
  }
  body.cancel();
  const failure = new SluiceError(
    "protocol",
    `client: ${what}: the answer is neither JSON-RPC nor bytes of a named resource`,
  );
  return { failure, response: placeholder(request) };
}

/** Servers answer a stream call with events only when they have more to say. */
const loadEvents = createLoader(() => import("./event-answer.ts"), "the reader of events");

/** Settles the SDK's request; the real response is in the call. */
function placeholder({ id, call }: InterceptedRequest): Response {
  return Response.json({ jsonrpc: "2.0", id, result: { resultType: "complete", uri: call.uri } });
}

/** A response for the SDK, with a body that was read or is watched. */
function respond(
  { status, headers }: Pick<HopAnswer, "status" | "headers">,
  body: string | ReadableStream<Uint8Array>,
): Response {
  const keptHeaders = new Headers(headers);
  // of the body that came
  for (const name of ["content-length", "content-encoding"]) keptHeaders.delete(name);
  return new Response(body, { status, headers: keptHeaders });
}
