import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { SluiceError, tlsFault } from "@sluice/core";
import { createPublicLookup, ensurePublic } from "../../net/public-lookup.ts";
import { headersOf } from "../../net/raw-headers.ts";
import { createAnswerText } from "./answer-json.ts";
import { writeBody } from "./write-body.ts";
import { watchProgress } from "./progress-watch.ts";
import { answerMsOf, type Sender, type SenderAnswer, type SenderRequest } from "./sender.ts";

/**
 * A sender over Node's own HTTP client: bodies go out as fast as the server takes them, from two
 * buffers, and an answer that comes early ends them. With `scope: "public"` the address that is
 * connected to is checked, not the name.
 */
export function createHttpSender(): Sender {
  // a connection that was allowed to go anywhere must never be found by a guarded request
  const agents = { any: createAgents(), public: createAgents({ lookup: createPublicLookup() }) };

  function send(request: SenderRequest): Promise<SenderAnswer> {
    const { url, scope, signal } = request;
    signal.throwIfAborted();
    if (scope === "public") ensurePublic(url.hostname);
    const secure = url.protocol === "https:";
    const outgoing = (secure ? httpsRequest : httpRequest)(url, {
      method: request.method,
      headers: ownHeaders(request),
      agent: agents[scope][secure ? "https" : "http"],
      maxHeaderSize: 16_384,
    });
    return exchange(outgoing, request);
  }

  return {
    async send(request) {
      try {
        return await send(request);
      } catch (error) {
        if (error instanceof StaleConnection) return send(request);
        throw error;
      }
    },
  };
}

/** The server closed an idle connection just as it was taken up again: it heard nothing. */
class StaleConnection extends SluiceError {
  constructor(cause: unknown) {
    super("interrupted", "uploads: the connection broke", { cause });
  }
}

// idle connections are kept for the next request, not for ever
const idleConnectionMs = 2_000;

function createAgents(options: object = {}): { http: HttpAgent; https: HttpsAgent } {
  const all = { keepAlive: true, timeout: idleConnectionMs, ...options };
  return { http: new HttpAgent(all), https: new HttpsAgent(all) };
}

/** A body from which on the server is asked first whether it wants it (RFC 9110 §10.1.1). */
const expectBytes = 2 ** 20;
/** Not every server knows how to say that it does. */
const continueMs = 1_000;
/** Interim answers tell of progress. This many of one request tell of an attack. */
const maxInterimAnswers = 10_000;

function ownHeaders({ headers, body }: SenderRequest): Record<string, string> {
  return {
    "user-agent": "sluice",
    ...headers,
    ...(body && { "content-length": `${body.length}` }),
    ...(body && body.length >= expectBytes && { expect: "100-continue" }),
  };
}

/** Sends the body and takes the answer. When it settles, nothing of it goes on. */
function exchange(outgoing: ClientRequest, request: SenderRequest): Promise<SenderAnswer> {
  const { body, signal, timeouts, url } = request;
  return new Promise((resolve, reject) => {
    const stopBody = new AbortController();
    let settled = false;
    let handed = 0;
    let connected = false;
    let answered = false;
    let interim = 0;
    const watch = watchProgress(timeouts, fail);

    function end(): void {
      settled = true;
      watch.stop();
      signal.removeEventListener("abort", fail);
      stopBody.abort();
    }
    function fail(error?: unknown): void {
      if (settled) return;
      end();
      reject(signal.aborted ? signal.reason : error);
      outgoing.destroy();
    }
    function awaitAnswer(): void {
      watch.allow(
        answerMsOf(timeouts, body?.length ?? 0),
        () => new SluiceError("timeout", `uploads: ${url.origin} did not answer in time`),
      );
    }

    signal.addEventListener("abort", fail, { once: true });
    watch.allow(
      timeouts.connectMs,
      () => new SluiceError("unavailable", `uploads: ${url.origin}: no connection in time`),
    );
    function begin(): void {
      connected = true;
      if (!body) return awaitAnswer();
      watch.sending();
      void sendBody();
    }
    outgoing.once("socket", (socket) => {
      if (!socket.connecting) return begin();
      socket.once(url.protocol === "https:" ? "secureConnect" : "connect", begin);
    });
    async function sendBody(): Promise<void> {
      if (!body) return;
      try {
        if (body.length >= expectBytes) await mayBegin(outgoing, stopBody.signal);
        await writeBody(outgoing, body, stopBody.signal, (bytes) => {
          handed += bytes;
          watch.note(bytes);
          request.onSent?.(bytes);
        });
        if (stopBody.signal.aborted) return;
        outgoing.end();
        awaitAnswer();
      } catch (error) {
        // what reading the file said; a connection that broke says so itself
        if (!stopBody.signal.aborted) fail(error);
      }
    }
    if (!body) outgoing.end();
    else outgoing.flushHeaders();

    outgoing.on("information", () => {
      if (++interim > maxInterimAnswers)
        fail(new SluiceError("protocol", `uploads: ${url.origin} answers without an end`));
    });
    outgoing.once("response", (response) => {
      answered = true;
      const sentAll = handed === (body?.length ?? 0);
      // whatever it says: a server that has answered wants nothing more
      stopBody.abort();
      if (sentAll && !outgoing.writableEnded) outgoing.end();
      awaitAnswer();
      readAnswer(response, (json) => {
        end();
        const { statusCode = 0 } = response;
        const headers = headersOf(response.rawHeaders);
        resolve({ status: statusCode, headers, sentAll, ...(json !== undefined && { json }) });
        if (!sentAll) outgoing.destroy();
      });
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      // from then on the answer tells what becomes of it
      if (answered) return;
      const isStale = outgoing.reusedSocket && interim === 0 && brokenPipes.has(error.code ?? "");
      fail(isStale ? new StaleConnection(error) : faultOf(url, connected, error));
    });
    // an answer that is none of ours, as 101 is, ends in neither of the two
    outgoing.once("close", () => {
      if (!answered) fail(faultOf(url, connected));
    });
  });
}

const brokenPipes: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE"]);

/** Waits until the server wants the body, or does not say. */
function mayBegin(outgoing: ClientRequest, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(go, continueMs);
    outgoing.once("continue", go);
    if (stop.aborted) go();
    stop.addEventListener("abort", go, { once: true });
  });
}

function readAnswer(response: IncomingMessage, done: (json: unknown) => void): void {
  const text = createAnswerText(response.headers["content-type"] ?? null);
  // an answer that breaks off is known by its status all the same
  response.on("error", () => {});
  response.once("close", () => done(response.complete ? text.json() : undefined));
  response.on("data", (chunk: Uint8Array) => {
    if (!text.add(chunk)) response.destroy();
  });
}

function faultOf(url: URL, connected: boolean, cause?: NodeJS.ErrnoException): SluiceError {
  if (SluiceError.is(cause)) return cause;
  if (cause?.code?.startsWith("HPE_"))
    return new SluiceError("protocol", `uploads: ${url.origin} sent malformed HTTP`, { cause });
  return connected
    ? new SluiceError("interrupted", `uploads: the connection to ${url.origin} broke`, { cause })
    : (tlsFault("uploads", url, cause) ??
        new SluiceError("unavailable", `uploads: ${url.origin} could not be reached`, { cause }));
}
