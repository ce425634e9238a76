import {
  cancelledBy,
  createEventReader,
  isRequest,
  isResponse,
  keyOf,
  type LooseResponse,
  readJson,
  type ServerEvent,
  SluiceError,
} from "@sluice/core";
import { isInTime, Notifier, onAbort, sleep, systemClock } from "@sluice/core/async";
import type { LinkRequest } from "./link-request.ts";
import type { ResumeOptions } from "./options.ts";

/** An event stream over any number of connections. */
export interface EventFlow {
  /** True for the id of a request of the server whose answer belongs to this stream. */
  expects(id: unknown): boolean;
  /** Keeps an answer until it is the client's turn. */
  answer(response: LooseResponse, text: string): void;
  /** Every event as text, to the result. Ends with the result, or throws. */
  follow(): AsyncGenerator<string>;
}

/** Options of {@link createEventFlow}. */
export interface EventFlowOptions {
  /** The first answer. */
  readonly first: ReadableStream<Uint8Array>;
  /** The requests to the link of the stream. */
  readonly link: LinkRequest;
  /** Id of the request that the stream answers; `undefined` when any response is the last. */
  readonly requestId: unknown;
  readonly limits: Required<ResumeOptions>;
  readonly signal: AbortSignal;
}

/** Makes the flow of one request. */
export function createEventFlow(options: EventFlowOptions): EventFlow {
  const { link, requestId, limits, signal } = options;
  const { maxEventLength } = limits;
  /** Requests of the server: those without an answer, and all so far. */
  const unansweredKeys = new Set<string>();
  const askedKeys = new Set<string>();
  /** Of the wait until every request of the server has its answer. */
  let answered: Notifier | undefined;
  let answers: string[] = [];
  let answerBytes = 0;
  /** Ends the connection that is read. */
  let cut: (() => void) | undefined;
  let cancelOverdue: (() => void) | undefined;
  let lastEventId: string | undefined;
  let { retryMs } = limits;
  /** Tries in a row that failed, and connections in a row that brought nothing. */
  let failures = 0;
  let silences = 0;

  /** Takes in an event; `undefined` for one that the client has had, or that tells it nothing. */
  function take({ id, data, retryMs: ms }: ServerEvent): "event" | "result" | undefined {
    if (ms !== undefined) retryMs = Math.min(ms, limits.maxRetryMs);
    if (data === undefined) return undefined;
    // the same event again is not progress
    if (id !== lastEventId) silences = 0;
    // an empty id means none (HTML, section 9.2.6)
    if (id !== undefined) lastEventId = id === "" ? undefined : id;
    const message = readJson(data).value;
    if (isResponse(message))
      return requestId === undefined || keyOf(message.id) === keyOf(requestId) ? "result" : "event";
    const withdrawn = cancelledBy(message);
    if (withdrawn !== undefined) unansweredKeys.delete(keyOf(withdrawn));
    if (!isRequest(message)) return "event";
    const key = keyOf(message.id);
    if (askedKeys.has(key)) return undefined;
    if (askedKeys.size >= maxAsked)
      throw new SluiceError(
        "protocol",
        "client: the server sends too many requests within one call",
      );
    askedKeys.add(key);
    unansweredKeys.add(key);
    return "event";
  }

  async function* read(body: ReadableStream<Uint8Array>): AsyncGenerator<string, boolean> {
    const reader = body.getReader();
    const end = (): void => void reader.cancel().catch(() => {});
    const events = createEventReader({ operation: "client", maxEventLength });
    const removeListener = onAbort(signal, end);
    cut = end;
    try {
      for (;;) {
        const cancelIdle = systemClock.schedule(end, limits.idleMs);
        // a broken body is an end
        const chunk = await reader.read().catch(() => undefined);
        cancelIdle();
        if (!chunk?.value) return false;
        for (const event of events.read(chunk.value)) {
          const kind = take(event);
          if (kind) yield format(event);
          if (kind === "result") return true;
        }
      }
    } finally {
      cancelOverdue?.();
      cut = undefined;
      removeListener();
      end();
    }
  }

  /** The next body, when there is one at once. */
  async function reconnect(): Promise<ReadableStream<Uint8Array> | undefined> {
    const asking = await link.get(lastEventId);
    // answers stay until the server took them: further events do not say that they arrived
    if (asking !== "your turn") return asking;
    if (unansweredKeys.size > 0) {
      silences = 0;
      answered = new Notifier();
      await isInTime(answered.wait(), limits.renewMs, signal);
      if (unansweredKeys.size > 0) return undefined;
    }
    if (answers.length === 0)
      throw new SluiceError(
        "interrupted",
        "client: the server waits for responses to requests that it has not sent",
      );
    const body = await link.post(`[${answers.join(",")}]`, lastEventId);
    answers = [];
    answerBytes = 0;
    return body;
  }

  async function* follow(): AsyncGenerator<string> {
    let body: ReadableStream<Uint8Array> | undefined = options.first;
    for (;;) {
      if (body && (yield* read(body))) return;
      signal.throwIfAborted();
      // a server that always says "again, at once" is asked less and less often
      await sleep(Math.max(retryMs, Math.min(2 ** silences * minPauseMs, 1_000)), signal);
      try {
        silences += 1;
        body = await reconnect();
        failures = 0;
      } catch (error) {
        signal.throwIfAborted();
        failures += 1;
        if (!SluiceError.is(error) || !error.retryable || failures >= limits.maxTries) throw error;
        body = undefined;
        const againMs = error.retryAfterMs ?? 2 ** (failures - 1) * limits.retryMs;
        await sleep(Math.min(againMs, limits.maxRetryMs), signal);
      }
    }
  }

  return {
    expects: (id) => unansweredKeys.has(keyOf(id)),
    answer(response, text) {
      unansweredKeys.delete(keyOf(response.id));
      answerBytes += text.length;
      if (answerBytes > limits.maxAnswerBytes) {
        link.fail(new SluiceError("too_large", "client: the responses to the server are too long"));
        return;
      }
      answers.push(text);
      if (unansweredKeys.size > 0) return;
      // a server that waits must end the connection; one that does not is cut off
      if (cut) cancelOverdue = systemClock.schedule(cut, overdueMs);
      else answered?.notify();
    },
    follow,
  };
}

const maxAsked = 1_000;
const minPauseMs = 5;
const overdueMs = 1_000;

/** An event without its `retry`, which the SDK has no use for. */
function format({ event, id, data = "" }: ServerEvent): string {
  const lines = data.split("\n").map((line) => `data: ${line}\n`);
  return `${event === undefined ? "" : `event: ${event}\n`}${id === undefined ? "" : `id: ${id}\n`}${lines.join("")}\n`;
}
