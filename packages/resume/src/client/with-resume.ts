import {
  cancelledBy,
  type FetchLike,
  isRequest,
  isResponse,
  keyOf,
  SluiceError,
} from "@sluice/core";
import { FIRST_MODERN_VERSION } from "@sluice/core/wire";
import { createEventFlow, type EventFlow } from "./event-flow.ts";
import { createLinkRequest, hasEvents, ownLink, type LinkRequest } from "./link-request.ts";
import { readResumeOptions, type ResumeOptions } from "./options.ts";

interface Going {
  readonly flow: EventFlow;
  readonly link: LinkRequest;
  readonly session: string;
  /** Key of the request; `undefined` for a stream that was picked up by the id of an event. */
  readonly request: string | undefined;
}

/**
 * A fetch for the `fetch` option of an SDK's HTTP transport, version 1 or 2, towards servers that let clients
 * pick up streams of events (SEP-1335, sessions of MCP 2025-11-25 and older). The SDK sees one uninterrupted
 * answer to each request, however often the connection breaks or the server ends it; what the SDK
 * answers to requests of the server is kept until it is the client's turn. Answers without a link, and
 * every other request, go through as they are.
 */
export function withResume(
  fetch: FetchLike = globalThis.fetch,
  options: ResumeOptions = {},
): FetchLike {
  const limits = readResumeOptions(options);
  const streams = new Set<Going>();

  /** Begins to follow an answer that has a link. */
  function follow(response: Response, asked: Asked): Response {
    const { url, headers, signal, message } = asked;
    const target = hasEvents(response) ? ownLink(response.headers, url) : undefined;
    if (!target || !response.body) return response;
    const ending = new AbortController();
    const requestId = isRequest(message) ? message.id : undefined;
    const fail = (error: SluiceError): void => ending.abort(error);
    const link = createLinkRequest({
      fetch,
      url,
      headers,
      link: target,
      headersMs: limits.headersMs,
      signal: ending.signal,
      fail,
    });
    const first = response.body;
    const flow = createEventFlow({ first, link, requestId, limits, signal: ending.signal });
    const going = {
      flow,
      link,
      session: asked.session,
      request: requestId === undefined ? undefined : keyOf(requestId),
    };
    const abort = (): void => ending.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    const timer = setTimeout(
      () => fail(new SluiceError("timeout", "client: the request took longer than agreed")),
      limits.totalMs,
    );
    (timer as { unref?: () => void }).unref?.();
    streams.add(going);
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      streams.delete(going);
      ending.abort();
    };
    const kept = new Headers(response.headers);
    for (const name of ["link", "content-length", "content-encoding"]) kept.delete(name);
    return new Response(bodyOf(flow, { requestId, end }), { status: 200, headers: kept });
  }

  function find(session: string, id: unknown): Going | undefined {
    for (const going of streams)
      if (going.session === session && going.flow.expects(id)) return going;
    return undefined;
  }

  return async (input, init) => {
    const asked = readRequest(input, init);
    const { headers, message, session } = asked;
    if (isModern(headers)) {
      if (headers.has("last-event-id"))
        throw new SluiceError(
          "unsupported",
          "client: streams are picked up in MCP 2025-11-25 and older; with this server send the request again, answer input_required results, and hear of changes through subscriptions/listen",
        );
      return fetch(input, init);
    }
    for (const going of streams)
      if (going.session === session) going.link.renew(headers.get("authorization") ?? undefined);
    if (isResponse(message)) {
      const going = find(session, message.id);
      if (!going) return fetch(input, init);
      going.flow.answer(message, init?.body as string);
      return new Response(undefined, { status: 202 });
    }
    const cancelled = cancelledBy(message);
    for (const { link, ...going } of streams)
      if (cancelled !== undefined && going.session === session && going.request === cancelled)
        link.fail(new SluiceError("interrupted", "client: the request was cancelled"));
    return follow(await fetch(input, init), asked);
  };
}

interface Asked {
  readonly url: URL;
  readonly headers: Headers;
  /** Names the session, and the server that it is with: any server may choose any id. */
  readonly session: string;
  readonly signal: AbortSignal | undefined;
  readonly message: unknown;
}

function readRequest(input: string | URL, init: RequestInit | undefined): Asked {
  const headers = new Headers(init?.headers);
  const url = new URL(input);
  return {
    url,
    headers,
    session: `${url.href} ${headers.get("mcp-session-id") ?? ""}`,
    signal: init?.signal ?? undefined,
    message: init?.method === "POST" ? parse(init.body) : undefined,
  };
}

/**
 * The flow as a body. What ends it early is told as the answer to the request, which both SDKs give to
 * the caller at once; of a broken body one of them makes a wait for its timeout.
 */
function bodyOf(
  flow: EventFlow,
  { requestId, end }: { readonly requestId: unknown; readonly end: () => void },
): ReadableStream<Uint8Array> {
  const events = flow.follow();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await events.next();
        if (!done) return controller.enqueue(encoder.encode(value));
        end();
        controller.close();
      } catch (error) {
        end();
        if (!SluiceError.is(error) || requestId === undefined) return controller.error(error);
        const { code, message } = error;
        const failure = { code: CONNECTION_CLOSED, message, data: { reason: code } };
        const answer = JSON.stringify({ jsonrpc: "2.0", id: requestId, error: failure });
        controller.enqueue(encoder.encode(`data: ${answer}\n\n`));
        controller.close();
      }
    },
    async cancel() {
      end();
      await events.return(undefined);
    },
  });
}

const encoder = new TextEncoder();
/** Number by which SDKs tell, on their own side, that a connection is gone. */
const CONNECTION_CLOSED = -32000;

function isModern(headers: Headers): boolean {
  const version = headers.get("mcp-protocol-version") ?? "";
  return /^\d{4}-\d\d-\d\d$/.test(version) && version >= FIRST_MODERN_VERSION;
}

function parse(body: unknown): unknown {
  if (typeof body !== "string") return undefined;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
