import type {
  JSONRPCMessage,
  JSONRPCRequest,
  Transport,
  RequestId,
} from "@modelcontextprotocol/client";
import { PerRequestHTTPServerTransport, SdkError } from "@modelcontextprotocol/server";
import { FIRST_MODERN_VERSION, defer, type Deferred } from "@sluice/core/internal";
import { codes, isAnswer, isCall, membersOf, refusal, type Members } from "../messages/messages.ts";
import { refuseRequest } from "./http-refusal.ts";
import { pacedEvents, type PacedEvents } from "./paced-events.ts";
import { SUBSCRIPTION_KEY } from "../messages/envelope.ts";
import { progressTokenOf } from "./related-call.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** How a call ended: with a result, with an error, or because the host closed its request. */
export type CallEnd = { readonly result: Members | undefined } | "left";

interface ServedCall {
  readonly names: CallNames;
  readonly transport: PerRequestHTTPServerTransport;
  readonly ended: Deferred<CallEnd>;
  readonly paramHeaders: Readonly<Record<string, string>>;
  events: PacedEvents | undefined;
  /** Status of the response, where it is not 200. */
  status: number | undefined;
  isAnswered: boolean;
}

/** Statuses of errors that are about the request itself (2026-07-28). */
const statuses: ReadonlyMap<number, number> = new Map([
  [codes.methodNotFound, 404],
  [codes.unsupportedRevision, 400],
  [codes.missingCapability, 400],
  [codes.headerMismatch, 400],
]);

/**
 * The host's end of a bridge for requests of 2026-07-28, one after the other: what the server says while one is under
 * way belongs to it, and goes out in its response.
 */
export class RequestHost implements Transport {
  onmessage?: Transport["onmessage"];
  onclose?: Transport["onclose"];
  onerror?: Transport["onerror"];
  #count = 0;
  #call: ServedCall | undefined;
  #isClosed = false;

  /** Nothing comes through it any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  async start(): Promise<void> {}

  /** Answers a request with what the server says. `ended` resolves when the next one may come. */
  serve(
    call: JSONRPCRequest,
    request: Request,
  ): { readonly response: Promise<Response>; readonly ended: Promise<CallEnd> } {
    const names = namesOf(call, ++this.#count);
    const classification = { era: "modern", revision: FIRST_MODERN_VERSION } as const;
    const transport = new PerRequestHTTPServerTransport({ classification });
    const served: ServedCall = {
      names,
      transport,
      ended: defer<CallEnd>(),
      paramHeaders: paramHeadersOf(request.headers),
      events: undefined,
      status: undefined,
      isAnswered: false,
    };
    this.#call = served;
    transport.onmessage = () => this.onmessage?.(renamed(call, names));
    transport.onclose = () => this.#left(served);
    return { response: this.#respond(served, call, request), ended: served.ended.promise };
  }

  async #respond(served: ServedCall, call: JSONRPCRequest, request: Request): Promise<Response> {
    const { transport } = served;
    try {
      await transport.start();
      const answer = await transport.handleMessage(call, { request });
      const { status = answer.status } = served;
      const response = new Response(answer.body, { status, headers: answer.headers });
      served.events = pacedEvents(response, () => void transport.close());
      return served.events.response;
    } catch (error) {
      this.#left(served);
      if (!(error instanceof SdkError)) throw error;
      return this.#isClosed
        ? refuseRequest(502, codes.noConnection, "The connection to the server has ended")
        : new Response(null, { status: 499 });
    }
  }

  /** The stream of the call is closed: without a response, to close it is to cancel. */
  #left(served: ServedCall): void {
    if (this.#call !== served) return;
    this.#call = undefined;
    if (served.isAnswered) return;
    served.ended.resolve("left");
    const params = { requestId: served.names.id };
    this.onmessage?.({ jsonrpc: "2.0", method: "notifications/cancelled", params });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const served = this.#call;
    if (isCall(message)) {
      // 2026-07-28 has no requests of the server
      this.onmessage?.(refusal(message.id, codes.methodNotFound, "Method not found"));
      return;
    }
    // what is late belongs to a call that is over
    const hostMessage = served && forHost(message, served.names);
    if (!hostMessage || served.isAnswered) return;
    const end = isAnswer(hostMessage) ? this.#answer(served, hostMessage) : undefined;
    try {
      await served.transport.send(hostMessage, { relatedRequestId: served.names.hostId });
      // a host that does not read holds its server back: the next call needs another one
      await served.events?.ready();
    } finally {
      if (end) served.ended.resolve(end);
    }
  }

  #answer(served: ServedCall, answer: JSONRPCMessage): CallEnd {
    served.isAnswered = true;
    const isError = "error" in answer;
    if (isError) served.status = statuses.get(answer.error.code);
    return { result: "result" in answer ? membersOf(answer.result) : undefined };
  }

  /** The fields in which the host repeats arguments of the call with this id: the server compares them. */
  paramFieldsOf(message: JSONRPCMessage): Readonly<Record<string, string>> | undefined {
    const served = this.#call;
    if (!isCall(message) || message.id !== served?.names.id) return undefined;
    return served.paramHeaders;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#call?.transport.close();
    this.onclose?.();
  }
}

function paramHeadersOf(headers: Headers): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith("mcp-param-")));
}

/** The names of one call: those of its host, and the one that no other call on the same connection has. */
interface CallNames {
  readonly hostId: RequestId;
  readonly hostToken: unknown;
  /** Id of the request and, where it asks for progress, its token. */
  readonly id: number;
}

/** The names of a call that is sent on as number `id`. */
export function namesOf(call: JSONRPCRequest, id: number): CallNames {
  return { hostId: call.id, hostToken: progressTokenOf(call.params), id };
}

/** The call as it is sent on. */
export function renamed(call: JSONRPCRequest, { id, hostToken }: CallNames): JSONRPCRequest {
  if (hostToken === undefined) return { ...call, id };
  const params = membersOf(call.params);
  const meta = { ...membersOf(params["_meta"]), progressToken: id };
  return { ...call, id, params: { ...params, _meta: meta } };
}

/** A message of the server with the names that the host knows; undefined when it belongs to another call. */
export function forHost(message: JSONRPCMessage, names: CallNames): JSONRPCMessage | undefined {
  if (isAnswer(message)) {
    if (message.id !== names.id) return undefined;
    const answer = { ...message, id: names.hostId };
    if (!("result" in answer)) return answer;
    return { ...answer, result: withSubscription(answer.result, names) };
  }
  if (!message.params) return message;
  const params = membersOf(message.params);
  if (message.method === "notifications/progress") {
    if (params["progressToken"] !== names.id) return undefined;
    return { ...message, params: { ...params, progressToken: names.hostToken } };
  }
  return { ...message, params: withSubscription(params, names) };
}

/** A subscription is called by the id of the request that opened it. */
function withSubscription<Value extends object>(value: Value, { id, hostId }: CallNames): Value {
  const meta = membersOf(membersOf(value)["_meta"]);
  const name = meta[SUBSCRIPTION_KEY];
  if (name !== id && name !== String(id)) return value;
  return { ...value, _meta: { ...meta, [SUBSCRIPTION_KEY]: hostId } };
}
