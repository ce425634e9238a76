import { SluiceError } from "@sluice/core";
import {
  cancelledBy,
  createEventReader,
  isInTime,
  isMessageEvent,
  isRequest,
  isResponse,
  keyOf,
  type LooseResponse,
  Notifier,
  onAbort,
  readJson,
  type ServerEvent,
  sleep,
  systemClock,
} from "@sluice/core/internal";
import type { LinkRequest } from "./link-request.ts";
import type { ResumableFetchOptions } from "./options.ts";

export interface EventFlowOptions {
  readonly first: ReadableStream<Uint8Array>;
  /** The requests to the link of the stream. */
  readonly link: LinkRequest;
  /** Id of the request that the stream answers; `undefined` when any response is the last. */
  readonly requestId: unknown;
  readonly limits: Required<ResumableFetchOptions>;
  readonly signal: AbortSignal;
}

/** An event stream over any number of connections. */
export class EventFlow {
  readonly #options: EventFlowOptions;
  /** Requests of the server: those without a response, and all so far. */
  readonly #unansweredKeys = new Set<string>();
  readonly #askedKeys = new Set<string>();
  /** Of the wait until every request of the server has its response. */
  #answered: Notifier | undefined;
  #answers: string[] = [];
  #answerBytes = 0;
  /** Ends the connection that is read. */
  #cut: (() => void) | undefined;
  #cancelOverdue: (() => void) | undefined;
  #lastEventId: string | undefined;
  #retryMs: number;
  /** Tries in a row that failed, and connections in a row that brought nothing. */
  #failures = 0;
  #silences = 0;

  constructor(options: EventFlowOptions) {
    this.#options = options;
    this.#retryMs = options.limits.retryMs;
  }

  /** True for the id of a request of the server whose answer belongs to this stream. */
  expects(id: unknown): boolean {
    return this.#unansweredKeys.has(keyOf(id));
  }

  /** Keeps a response until it is the client's turn. */
  answer(response: LooseResponse, text: string): void {
    this.#unansweredKeys.delete(keyOf(response.id));
    this.#answerBytes += text.length;
    if (this.#answerBytes > this.#options.limits.maxAnswerBytes) {
      this.#options.link.fail(
        new SluiceError("too_large", "client: the responses to the server are too long"),
      );
      return;
    }
    this.#answers.push(text);
    if (this.#unansweredKeys.size > 0) return;
    // a server that waits must end the connection; one that does not is cut off
    if (this.#cut) this.#cancelOverdue = systemClock.schedule(this.#cut, overdueMs);
    else this.#answered?.notify();
  }

  /** Every event as text, to the result. Ends with the result, or throws. */
  async *follow(): AsyncGenerator<string> {
    let body: ReadableStream<Uint8Array> | undefined = this.#options.first;
    for (;;) {
      if (body && (yield* this.#read(body))) return;
      this.#options.signal.throwIfAborted();
      // a server that always says "again, at once" is asked less and less often
      await sleep(
        Math.max(this.#retryMs, Math.min(2 ** this.#silences * minPauseMs, 1_000)),
        this.#options.signal,
      );
      try {
        this.#silences += 1;
        body = await this.#reconnect();
        this.#failures = 0;
      } catch (error) {
        this.#options.signal.throwIfAborted();
        this.#failures += 1;
        if (
          !SluiceError.is(error) ||
          !error.retryable ||
          this.#failures >= this.#options.limits.maxAttempts
        )
          throw error;
        body = undefined;
        const againMs =
          error.retryAfterMs ?? 2 ** (this.#failures - 1) * this.#options.limits.retryMs;
        await sleep(Math.min(againMs, this.#options.limits.maxRetryMs), this.#options.signal);
      }
    }
  }

  /** Takes in an event; `undefined` for one that the client has had, or that tells it nothing. */
  #take({ id, event, data, retryMs: ms }: ServerEvent): "event" | "result" | undefined {
    if (ms !== undefined) this.#retryMs = Math.min(ms, this.#options.limits.maxRetryMs);
    // the same event again is not progress
    if (id !== this.#lastEventId && (id ?? data) !== undefined) this.#silences = 0;
    // an empty id means none, and an event with only an id is a resume point (HTML, section 9.2.6)
    if (id !== undefined) this.#lastEventId = id === "" ? undefined : id;
    if (data === undefined) return undefined;
    if (!isMessageEvent({ event })) return "event";
    const message = readJson(data).value;
    if (isResponse(message))
      return this.#options.requestId === undefined ||
        keyOf(message.id) === keyOf(this.#options.requestId)
        ? "result"
        : "event";
    const withdrawn = cancelledBy(message);
    if (withdrawn !== undefined) this.#unansweredKeys.delete(keyOf(withdrawn));
    if (!isRequest(message)) return "event";
    const key = keyOf(message.id);
    if (this.#askedKeys.has(key)) return undefined;
    if (this.#askedKeys.size >= maxAsked)
      throw new SluiceError(
        "protocol",
        "client: the server sends too many requests within one call",
      );
    this.#askedKeys.add(key);
    this.#unansweredKeys.add(key);
    return "event";
  }

  async *#read(body: ReadableStream<Uint8Array>): AsyncGenerator<string, boolean> {
    const reader = body.getReader();
    const end = (): void => void reader.cancel().catch(() => {});
    const events = createEventReader({
      operation: "client",
      maxEventLength: this.#options.limits.maxEventLength,
    });
    const removeListener = onAbort(this.#options.signal, end);
    this.#cut = end;
    try {
      for (;;) {
        const cancelIdle = systemClock.schedule(end, this.#options.limits.idleMs);
        // a broken body is an end
        const chunk = await reader.read().catch(() => undefined);
        cancelIdle();
        if (!chunk?.value) return false;
        for (const event of events.read(chunk.value)) {
          const kind = this.#take(event);
          if (kind) yield format(event);
          if (kind === "result") return true;
        }
      }
    } finally {
      this.#cancelOverdue?.();
      this.#cut = undefined;
      removeListener();
      end();
    }
  }

  /** The next body, when there is one at once. */
  async #reconnect(): Promise<ReadableStream<Uint8Array> | undefined> {
    const asking = await this.#options.link.get(this.#lastEventId);
    // answers stay until the server took them: further events do not say that they arrived
    if (asking !== "your turn") return asking;
    if (this.#unansweredKeys.size > 0) {
      this.#silences = 0;
      this.#answered = new Notifier();
      await isInTime(
        this.#answered.wait(),
        this.#options.limits.renewIntervalMs,
        this.#options.signal,
      );
      if (this.#unansweredKeys.size > 0) return undefined;
    }
    if (this.#answers.length === 0)
      throw new SluiceError(
        "interrupted",
        "client: the server waits for responses to requests that it has not sent",
      );
    const body = await this.#options.link.post(`[${this.#answers.join(",")}]`, this.#lastEventId);
    this.#answers = [];
    this.#answerBytes = 0;
    return body;
  }
}

const maxAsked = 1_000;
const minPauseMs = 5;
const overdueMs = 1_000;

/** An event without its `retry`, which the SDK has no use for. */
function format({ event, id, data = "" }: ServerEvent): string {
  const lines = data.split("\n").map((line) => `data: ${line}\n`);
  return `${event === undefined ? "" : `event: ${event}\n`}${id === undefined ? "" : `id: ${id}\n`}${lines.join("")}\n`;
}
