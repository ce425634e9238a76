import { SluiceError } from "@sluice/core";
import {
  type Lateness,
  parseMediaType,
  readJson,
  systemClock,
  type ThroughputWatch,
  watchThroughput,
} from "@sluice/core/internal";
import { stretchBytes } from "../../net/outgoing-body.ts";
import type { HopExchange, HopAnswer, HopRequest } from "../../net/exchange.ts";
import { readText } from "../../net/read-text.ts";
import {
  lateError,
  throughputRules,
  unanswered,
  withDeadline,
  peerTimeouts,
  type PeerTimeouts,
} from "../../net/timeouts.ts";

/** How requests of an upload go out. */
export interface Sender {
  /**
   * Sends one HTTP request and gives its response, whatever the status. Rejects as an
   * {@link HopExchange} does, and with `interrupted` or `timeout` when the server takes no bytes, takes
   * them too slowly, or does not answer.
   */
  send(request: SenderRequest): Promise<SenderAnswer>;
  /** Maximum bytes in one step of a resumable upload; absent: all that is left. */
  readonly maxStepBytes?: number;
  /** True if larger stretches of a file pass unseen: their digest takes a separate read. */
  readonly blind?: true;
}

/** One request. */
export interface SenderRequest extends Omit<HopRequest, "body" | "connectMs" | "progress"> {
  /** Absent: a request without a body. */
  readonly body?: Exclude<HopRequest["body"], string>;
  readonly timeouts: SendTimeouts;
  /** Called with the bytes of the body that went out, as they do. */
  readonly onSent?: ((bytes: number) => void) | undefined;
}

/** Status, headers and the JSON of a response. */
export interface SenderAnswer extends Pick<HopAnswer, "status" | "headers" | "sentAll"> {
  /** JSON of at most 64 KiB; else absent. The server's words: never for a model. */
  readonly json?: unknown;
}

/** A sender over an exchange that reports progress: each phase of a request has its deadline. */
export function createSender(exchange: HopExchange): Sender {
  return {
    async send({ timeouts, onSent, ...request }) {
      const { url, body } = request;
      const { connectMs } = timeouts;
      const late = new AbortController();
      const signal = AbortSignal.any([request.signal, late.signal]);
      let sending: ThroughputWatch | undefined;
      let endPhase: (() => void) | undefined;

      const giveUp = (lateness: Lateness): void => late.abort(lateError(lateness, lateBody));
      function awaitAnswer(): void {
        endPhase?.();
        const answerMs = answerMsOf(timeouts, body?.length ?? 0);
        endPhase = systemClock.schedule(() => late.abort(unanswered(url.origin)), answerMs);
      }
      const progress = {
        connected() {
          endPhase?.();
          const watch = watchThroughput(throughputRules(timeouts), giveUp, systemClock);
          endPhase = () => void watch.stop();
          sending = watch;
        },
        handed(bytes: number) {
          sending?.moved(bytes);
          onSent?.(bytes);
        },
        sent: awaitAnswer,
      };

      try {
        const answer = await exchange({ ...request, signal, connectMs, progress });
        awaitAnswer();
        return await readAnswer(answer, signal);
      } finally {
        endPhase?.();
      }
    },
  };
}

/** The fault of a server that takes the bytes too slowly. */
const lateBody: Readonly<Record<Lateness, string>> = {
  idle: "the server stopped taking bytes",
  slow: "the server takes bytes too slowly to be worth it",
  total: "the request takes too long",
};

/**
 * A sender over an exchange that tells nothing of a body before it is sent, as `fetch`: a large file goes in
 * steps, each with a deadline, and progress is known after each.
 */
export function createBlindSender(exchange: HopExchange): Sender {
  return {
    maxStepBytes: stretchBytes,
    blind: true,
    send({ timeouts, onSent, ...request }) {
      const { url, body } = request;
      const { connectMs } = timeouts;
      const wholeMs = wholeMsOf(timeouts, body?.length ?? 0);
      const expired = (): SluiceError => unanswered(url.origin);
      return withDeadline([request.signal], wholeMs, expired, async (signal) => {
        const answer = await exchange({ ...request, signal, connectMs }).catch(showRedirect);
        const read = await readAnswer(answer, signal);
        if (body) onSent?.(body.length);
        return read;
      });
    },
  };
}

/** Longest JSON that is read. */
const maxJsonBytes = 65_536;

async function readAnswer(answer: HopAnswer, signal: AbortSignal): Promise<SenderAnswer> {
  const { status, headers, sentAll, body } = answer;
  const { text, cut } = await readText(body, maxJsonBytes);
  if (cut !== undefined) signal.throwIfAborted();
  const essence = parseMediaType(headers.get("content-type"))?.essence;
  const isJson = essence === "application/json" || essence === "application/problem+json";
  // an interrupted answer still has its status
  const json = isJson && cut === undefined ? readJson(text).value : undefined;
  return { status, headers, sentAll, json };
}

/** A hidden redirect is still a redirect. */
function showRedirect(error: unknown): HopAnswer {
  if (!SluiceError.is(error) || error.code !== "unsupported") throw error;
  const body = { pump: async () => {}, cancel() {} };
  return { status: 307, headers: new Headers(), sentAll: true, framing: "unknown", body };
}

/** At the minimum rate, and never shorter than the wait for a response. */
function wholeMsOf(timeouts: SendTimeouts, bytes: number): number {
  const sendingMs = Math.min((bytes / timeouts.minBytesPerSecond) * 1_000, 21_600_000);
  return answerMsOf(timeouts, bytes) + sendingMs;
}

/** How long to wait for what, in milliseconds. */
export interface SendTimeouts extends PeerTimeouts {
  /** For the response, once everything is sent, and 1 s more for every 16 MiB of it. Default: 60 s. */
  readonly answerMs: number;
}

/** The defaults. */
export const sendTimeouts: SendTimeouts = { ...peerTimeouts, answerMs: 60_000 };

/** How long to wait for a response to a body that was sent. */
function answerMsOf(timeouts: SendTimeouts, bytes: number): number {
  return timeouts.answerMs + (bytes / 2 ** 24) * 1_000;
}
