import { type FetchLike, SluiceError } from "@sluice/core";
import {
  httpError,
  isEventStream,
  parseRetryAfter,
  systemClock,
  tlsFault,
} from "@sluice/core/internal";
import { streamLinkOf } from "../protocol/stream-link.ts";

type Body = ReadableStream<Uint8Array>;

export interface LinkRequestOptions {
  readonly fetch: FetchLike;
  readonly url: URL;
  /** Of the request that opened the stream. */
  readonly headers: Headers;
  readonly link: URL;
  readonly headersMs: number;
  readonly signal: AbortSignal;
  readonly fail: (error: SluiceError) => void;
}

/** Requests the link of a stream, and follows it when it changes. */
export class LinkRequest {
  readonly #options: LinkRequestOptions;
  readonly #headers: Headers;
  #link: URL;

  constructor(options: LinkRequestOptions) {
    this.#options = options;
    this.#headers = new Headers(options.headers);
    for (const name of ["content-length", "content-type", "last-event-id"])
      this.#headers.delete(name);
    this.#headers.set("accept", "text/event-stream");
    this.#link = options.link;
  }

  /** The rest of the stream, or that the server waits for the client. */
  async get(lastEventId: string | undefined): Promise<Body | "your turn"> {
    const response = await this.#send({ method: "GET" }, lastEventId);
    return response.status === 204 ? "your turn" : bodyOf(response);
  }

  /** Hands over answers, a JSON array; gives the rest of the stream. */
  async post(body: string, lastEventId: string | undefined): Promise<Body> {
    return bodyOf(await this.#send({ method: "POST", body }, lastEventId));
  }

  /** Uses the credentials of a newer request of the same session. */
  renew(authorization: string | undefined): void {
    if (authorization !== undefined) this.#headers.set("authorization", authorization);
  }

  /** Ends the stream with an error. */
  fail(error: SluiceError): void {
    this.#options.fail(error);
  }

  async #send(init: RequestInit, lastEventId: string | undefined): Promise<Response> {
    const { fetch, url, headersMs, signal } = this.#options;
    const requestHeaders = new Headers(this.#headers);
    if (lastEventId !== undefined) requestHeaders.set("last-event-id", utf8FieldOf(lastEventId));
    if (init.body !== undefined) requestHeaders.set("content-type", "application/json");
    const late = new AbortController();
    const cancelTimer = systemClock.schedule(
      () => late.abort(new SluiceError("timeout", "client: the server did not answer in time")),
      headersMs,
    );
    try {
      const response = await fetch(this.#link, {
        ...init,
        headers: requestHeaders,
        redirect: "manual",
        signal: AbortSignal.any([signal, late.signal]),
      });
      this.#link = streamLinkOf(response.headers, url) ?? this.#link;
      return response;
    } catch (error) {
      signal.throwIfAborted();
      if (SluiceError.is(error)) throw error;
      throw (
        tlsFault("client", url, error) ??
        new SluiceError("unavailable", `client: ${url.origin} could not be reached`, {
          cause: error,
        })
      );
    } finally {
      cancelTimer();
    }
  }
}

/** A text as a field value in UTF-8, as HTML section 9.2.4 has it: `Headers` takes one character for each byte. */
function utf8FieldOf(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

async function bodyOf(response: Response): Promise<Body> {
  const { status } = response;
  if (status === 200 && isEventStream(response.headers) && response.body) return response.body;
  await response.body?.cancel().catch(() => {});
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), Date.now());
  const failure = httpError("a stream that is picked up again", status, { retryAfterMs });
  // its token may have been renewed by now
  if (status !== 401) throw failure;
  throw new SluiceError("interrupted", failure.message, { cause: failure });
}
