import type { McpHandlerRequestOptions } from "@modelcontextprotocol/server";
import {
  cancelledBy,
  createEventReader,
  isMessageEvent,
  isRequest,
  type EventReader,
  type LooseMessage,
  type RpcId,
} from "@sluice/core/internal";
import type { McpFetchHandler } from "@sluice/transport-http";
import { formatQuestionId, ownIdOf } from "../stream/question.ts";
import type { RunningCalls } from "./running-calls.ts";
import type { RunningCall, StreamWriter } from "../stream/stream-writer.ts";

/** Options of {@link startRelay}. */
export interface RelayOptions {
  readonly handler: McpFetchHandler;
  /** The endpoint as the handler sees it. */
  readonly url: string;
  /** Headers of the request, for later messages to the server in its session. */
  readonly headers: Headers;
  readonly mcpOptions: McpHandlerRequestOptions | undefined;
  /** Answer of the handler: the events that are written. */
  readonly body: ReadableStream<Uint8Array>;
  readonly writer: StreamWriter;
  readonly sessionId: string;
  readonly owner: string;
  readonly requestId: RpcId;
  readonly calls: Pick<RunningCalls, "deletionOf">;
  readonly onError: (error: unknown) => void;
}

/**
 * Writes what a handler answers, at the pace of the handler: the readers of the stream make no difference to it. When the
 * writer ends before the result, the request is cancelled.
 */
export function startRelay({ body, ...terms }: RelayOptions): RunningCall {
  const relay = new Relay(terms);
  relay.run(body).catch(terms.onError);
  return relay;
}

/** A class with one loop: each of its members is held for every call that waits. */
class Relay implements RunningCall {
  readonly writer: StreamWriter;
  readonly sessionId: string;
  readonly owner: string;
  readonly requestId: RpcId;
  readonly #terms: Omit<RelayOptions, "body">;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** Absent between events: a call may wait there for long. */
  #events: EventReader | undefined;
  #lastEventId = "";
  #retryMs = 1_000;

  constructor(terms: Omit<RelayOptions, "body">) {
    this.#terms = terms;
    this.writer = terms.writer;
    this.sessionId = terms.sessionId;
    this.owner = terms.owner;
    this.requestId = terms.requestId;
  }

  async run(first: ReadableStream<Uint8Array>): Promise<void> {
    const { writer } = this;
    writer.onEnd(() => this.#stop());
    this.#read(first);
    for (let goesOn = true; goesOn && !writer.isOver;)
      try {
        const { value } = await this.#reader!.read();
        if (value) await this.#write(value);
        else goesOn = await this.#reopen();
      } catch (error) {
        this.#terms.onError(error);
        goesOn = await this.#reopen().catch((fault: unknown) => {
          this.#terms.onError(fault);
          return false;
        });
      }
    this.#stop();
    await this.#terms.calls.deletionOf(this.sessionId);
    await writer.fail("interrupted");
    const params = { requestId: this.requestId, reason: "the stream of its answer is gone" };
    if (!writer.isAnswered) await this.#post({ method: "notifications/cancelled", params });
  }

  async deliver(question: string, answer: string): Promise<void> {
    const { openQuestions } = this.writer;
    const id = openQuestions.get(question);
    if (id === undefined) return;
    openQuestions.delete(question);
    try {
      await this.#post({ id: ownIdOf(id), ...(JSON.parse(answer) as object) });
    } catch (error) {
      openQuestions.set(question, id);
      throw error;
    }
  }

  #read(body: ReadableStream<Uint8Array>): void {
    this.#reader = body.getReader();
    this.#events = undefined;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#events ??= createEventReader({ operation: "resume", maxEventLength });
    const events = this.#events.read(bytes);
    if (endsEvent(bytes)) this.#events = undefined;
    for (const { id, event, data, retryMs } of events) {
      if (id !== undefined) this.#lastEventId = id;
      // the least pause bounds a handler whose streams end again and again at once
      if (retryMs !== undefined) this.#retryMs = Math.min(Math.max(retryMs, 10), 60_000);
      if (data && isMessageEvent({ event }))
        await this.writer.write(this.#renamed(JSON.parse(data) as LooseMessage));
    }
  }

  #renamed(message: LooseMessage): LooseMessage {
    const { streamId } = this.writer;
    if (isRequest(message)) return { ...message, id: formatQuestionId(streamId, message.id) };
    const cancelled = cancelledBy(message);
    if (cancelled === undefined) return message;
    const requestId = formatQuestionId(streamId, cancelled);
    return { ...message, params: { ...message.params, requestId } };
  }

  #stop(): void {
    this.#reader?.cancel().catch(() => {});
  }

  /** SEP-1699: a tool may close the stream that it answers in; the handler then has the rest of it. */
  async #reopen(): Promise<boolean> {
    const { writer } = this;
    this.#stop();
    if (writer.isOver || this.#lastEventId === "") return false;
    await writer.pause(this.#retryMs);
    if (writer.isOver) return false;
    const request = new Request(this.#terms.url, {
      headers: {
        ...sessionHeaders(this.#terms.headers),
        accept: "text/event-stream",
        "last-event-id": this.#lastEventId,
      },
    });
    const { parsedBody: _none, ...rest } = this.#terms.mcpOptions ?? {};
    const response = await this.#terms.handler.fetch(request, rest);
    if (response.ok && response.body) this.#read(response.body);
    else await response.body?.cancel();
    return response.ok && response.body !== null;
  }

  async #post(message: object): Promise<void> {
    const request = new Request(this.#terms.url, {
      method: "POST",
      headers: {
        ...sessionHeaders(this.#terms.headers),
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      },
    });
    const withBody = { ...this.#terms.mcpOptions, parsedBody: { jsonrpc: "2.0", ...message } };
    const response = await this.#terms.handler.fetch(request, withBody);
    await response.body?.cancel();
    if (!response.ok && response.status !== 404)
      throw new Error(`resume: the handler refused a message of the client: ${response.status}`);
  }
}

/** Headers that tie a message to its session and its sender; not those of another body. */
function sessionHeaders(headers: Headers): Record<string, string> {
  const fields = Object.fromEntries(headers);
  for (const name of ["content-length", "content-encoding", "transfer-encoding", "last-event-id"])
    delete fields[name];
  return fields;
}

/** True when no event has begun behind the last one of a chunk. */
function endsEvent(bytes: Uint8Array): boolean {
  return bytes.at(-1) === newline && bytes.at(-2) === newline;
}

const newline = 10;
/** Longest event of a handler, in characters. */
const maxEventLength = 64 * 1024 * 1024;
