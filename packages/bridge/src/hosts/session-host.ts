import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/client";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { cancelledBy, isRequest, keyOf } from "@sluice/core/internal";
import { codes, isAnswer, refusal, isCall } from "../messages/messages.ts";
import { pacedEvents, type PacedEvents } from "./paced-events.ts";
import { progressTokenOf, relatedCall, type HostCall } from "./related-call.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** A call in a session, and the response to the POST that it came in. */
interface SessionCall extends HostCall {
  readonly method: string;
  readonly post: CallStream;
}

/** The response to a POST, which carries its calls. */
interface CallStream {
  events: PacedEvents | undefined;
  /** The host has closed it: nothing more can go out on it. */
  isCut: boolean;
  /** Calls of it that were cancelled: it ends without them. */
  readonly cancelled: RequestId[];
}

/** The host's end of a bridge for one session of 2025-11-25 or older. */
export class SessionHost implements Transport {
  onmessage?: Transport["onmessage"];
  onclose?: Transport["onclose"];
  onerror?: Transport["onerror"];
  readonly #inner: WebStandardStreamableHTTPServerTransport;
  readonly #calls = new Map<string, SessionCall>();
  /** What the server said while no stream was open. */
  readonly #early = new EarlyMessages();
  /** The stream that the host opened by GET. */
  #stream: PacedEvents | undefined;

  constructor(id: string) {
    this.#inner = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id });
  }

  async start(): Promise<void> {
    this.#inner.onmessage = (message) => {
      const cancelled = cancelledBy(message);
      if (cancelled !== undefined) this.#cancel(cancelled);
      this.onmessage?.(message);
    };
    this.#inner.onclose = () => this.onclose?.();
    await this.#inner.start();
  }

  /** Answers a request of the session. `onEnd` is called once, when its response is over. */
  async handle(request: Request, body: unknown, onEnd: () => void): Promise<Response> {
    const post: CallStream = { events: undefined, isCut: false, cancelled: [] };
    const calls = this.#enter(body, post);
    let response: Response;
    try {
      const handlerOptions = body === undefined ? {} : { parsedBody: body };
      response = await this.#inner.handleRequest(request, handlerOptions);
    } catch (error) {
      onEnd();
      throw error;
    }
    const isListening = request.method === "GET" && response.ok;
    const events = pacedEvents(
      response,
      () => {
        post.isCut = true;
        // there is one at a time
        if (isListening) this.#stream = undefined;
        onEnd();
      },
      request.signal,
    );
    post.events = events;
    if (isListening) this.#stream = events;
    // a refused call is not open
    if (!response.ok) for (const { id } of calls) this.#calls.delete(keyOf(id));
    else if (isListening || calls.length > 0)
      for (const message of this.#early.take()) void this.send(message).catch(() => {});
    return events.response;
  }

  #enter(body: unknown, post: CallStream): SessionCall[] {
    const calls = (Array.isArray(body) ? (body as unknown[]) : [body])
      .filter(isRequest)
      .map(({ id, method, params }) => ({
        id,
        method,
        progressToken: progressTokenOf(params),
        post,
      }));
    for (const call of calls) this.#calls.set(keyOf(call.id), call);
    return calls;
  }

  /** A call that was cancelled gets no response. */
  #cancel(id: RequestId): void {
    const call = this.#calls.get(keyOf(id));
    if (!call) return;
    this.#calls.delete(keyOf(id));
    call.post.cancelled.push(id);
    this.#endStream(call.post);
  }

  /** Ends a stream whose last calls were cancelled: nothing more comes on it. */
  #endStream(post: CallStream): void {
    const [first] = post.cancelled;
    if (first === undefined || [...this.#calls.values()].some((call) => call.post === post)) return;
    this.#inner.closeSSEStream(first);
    // after its end a response goes nowhere: the SDK forgets the call with it
    for (const id of post.cancelled.splice(0))
      void this.#inner.send(refusal(id, codes.noConnection, "cancelled")).catch(() => {});
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (isAnswer(message)) return this.#answer(message);
    const open = [...this.#calls.values()].filter(({ post }) => !post.isCut);
    const call = relatedCall(message, open, this.#stream !== undefined);
    if (!call && !this.#stream) return this.#early.push(message);
    await this.#inner.send(message, call ? { relatedRequestId: call.id } : {});
    await (call ? call.post.events : this.#stream)?.ready();
  }

  async #answer(message: JSONRPCMessage & { readonly id?: RequestId | undefined }): Promise<void> {
    const key = keyOf(message.id);
    const call = this.#calls.get(key);
    this.#calls.delete(key);
    await this.#inner.send(message);
    // a session that the server rejected does not exist
    if ("error" in message && call?.method === "initialize") return this.close();
    if (!call) return;
    this.#endStream(call.post);
    await call.post.events?.ready();
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

const maxMessages = 100;
const maxBytes = 2 ** 20;

/**
 * Requests and notifications of a server that wait for a stream: a server may ask as soon as it is initialized, and the
 * host opens its stream after that. At most 100 and 1 MiB; what is more is dropped. Progress is of no use later.
 */
export class EarlyMessages {
  #messages: JSONRPCMessage[] = [];
  #bytes = 0;

  push(message: JSONRPCMessage): void {
    if (!isCall(message) && "method" in message && message.method === "notifications/progress")
      return;
    const bytes = JSON.stringify(message).length;
    if (this.#messages.length >= maxMessages || this.#bytes + bytes > maxBytes) return;
    this.#messages.push(message);
    this.#bytes += bytes;
  }

  /** All that wait, in their order; none wait any more. */
  take(): JSONRPCMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#bytes = 0;
    return messages;
  }
}
