import type { JSONRPCMessage, JSONRPCRequest, Transport } from "@modelcontextprotocol/client";
import { PerRequestHTTPServerTransport, SdkError } from "@modelcontextprotocol/server";
import { FIRST_MODERN_VERSION } from "@sluice/core/wire";
import { codes, isAnswer, isCall, membersOf, refusal, type Members } from "../relay/messages.ts";
import { defer, type Deferred } from "../relay/deferred.ts";
import { refuseRequest } from "./http-refusal.ts";
import { pacedEvents, type PacedEvents } from "./paced-events.ts";
import { forHost, namesOf, renamed, type CallNames } from "./request-ids.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** How a call ended: with a result, with an error, or because the host closed its request. */
export type CallEnd = { readonly result: Members | undefined } | "left";

/** The call that is under way. */
interface ServedCall {
  readonly names: CallNames;
  readonly transport: PerRequestHTTPServerTransport;
  readonly ended: Deferred<CallEnd>;
  readonly paramHeaders: Readonly<Record<string, string>>;
  events: PacedEvents | undefined;
  /** Status of the answer, where it is not 200. */
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
 * way belongs to it, and goes out in its answer.
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
  async serve(
    call: JSONRPCRequest,
    request: Request,
  ): Promise<{ readonly response: Response; readonly ended: Promise<CallEnd> }> {
    const names = namesOf(call, ++this.#count);
    const classification = { era: "modern", revision: FIRST_MODERN_VERSION } as const;
    const transport = new PerRequestHTTPServerTransport({ classification });
    const running: ServedCall = {
      names,
      transport,
      ended: defer<CallEnd>(),
      paramHeaders: paramHeadersOf(request.headers),
      events: undefined,
      status: undefined,
      isAnswered: false,
    };
    this.#call = running;
    transport.onmessage = () => this.onmessage?.(renamed(call, names));
    transport.onclose = () => this.#left(running);
    const { ended } = running;
    try {
      await transport.start();
      const answer = await transport.handleMessage(call, { request });
      const { status = answer.status } = running;
      const response = new Response(answer.body, { status, headers: answer.headers });
      running.events = pacedEvents(response, () => void transport.close());
      return { response: running.events.response, ended: ended.promise };
    } catch (error) {
      this.#left(running);
      if (!(error instanceof SdkError)) throw error;
      const response = this.#isClosed
        ? refuseRequest(502, codes.noConnection, "The connection to the server has ended")
        : new Response(null, { status: 499 });
      return { response, ended: ended.promise };
    }
  }

  /** The stream of the call is closed: without an answer, to close it is to cancel. */
  #left(running: ServedCall): void {
    if (this.#call !== running) return;
    this.#call = undefined;
    if (running.isAnswered) return;
    running.ended.resolve("left");
    const params = { requestId: running.names.id };
    this.onmessage?.({ jsonrpc: "2.0", method: "notifications/cancelled", params });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const running = this.#call;
    if (isCall(message)) {
      // 2026-07-28 has no requests of the server
      this.onmessage?.(refusal(message.id, codes.methodNotFound, "Method not found"));
      return;
    }
    // what is late belongs to a call that is over
    const known = running && forHost(message, running.names);
    if (!known || running.isAnswered) return;
    if (isAnswer(known)) this.#answer(running, known);
    await running.transport.send(known, { relatedRequestId: running.names.hostId });
    await running.events?.ready();
  }

  #answer(running: ServedCall, answer: JSONRPCMessage): void {
    running.isAnswered = true;
    const isError = "error" in answer;
    if (isError) running.status = statuses.get(answer.error.code);
    const result = "result" in answer ? membersOf(answer.result) : undefined;
    running.ended.resolve({ result });
  }

  /** The fields in which the host repeats arguments of the call with this id: the server compares them. */
  paramFieldsOf(message: JSONRPCMessage): Readonly<Record<string, string>> | undefined {
    const running = this.#call;
    if (!isCall(message) || message.id !== running?.names.id) return undefined;
    return running.paramHeaders;
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
